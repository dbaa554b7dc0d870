/**
 * Triggers of watched tables read a gate, so that PostgreSQL does not call their function while no client may watch the table. A
 * call costs three times as much. A gate is a sequence, because its last value is visible at once, whatever the snapshot. It is 1
 * while `realtime_recorded` has an entry for one of its tables, else 0.
 */
import { gateCount, gateName } from '../change-triggers.js'
import type { SystemMigration } from './system-migration.js'

const gates = Array.from({ length: gateCount }, (_, number) => gateName(number))
const filters = Array.from({ length: 16 }, (_, index) => `'tenantry.realtime_filter_${index}'::regclass`)

/** SQL for whether the filter of realtime-outbox.ts has the tenant. PostgreSQL runs it in half the time of `is_recorded`. */
const isRecorded = (tenant: string): string => {
  const hash = `hashtext(${tenant}::text || tg_argv[0])`
  return `(pg_sequence_last_value((array[${filters.join(', ')}])[1 + ((${hash} >> 6) & ${filters.length - 1})]) & (1::bigint << (${hash} & 63))) <> 0`
}

const gateStatements = [
  ...gates.map((name) => `create sequence ${name} minvalue 0 start 0`),
  // A condition of a trigger runs with the rights of the writer.
  `grant select on sequence ${gates.join(', ')} to public`,
  `create function tenantry.realtime_gates() returns regclass[] language sql immutable
return array[${gates.map((name) => `'${name}'::regclass`).join(', ')}]`,
  // The same number as that of gateOf().
  `create function tenantry.realtime_gate(name text) returns regclass language sql immutable
return (tenantry.realtime_gates())[1 + (get_byte(sha256(convert_to(name, 'UTF8')), 0) & ${gateCount - 1})]`,
  `create or replace function tenantry.is_recorded(tenant text, name text) returns boolean language sql volatile
return pg_sequence_last_value(tenantry.realtime_gate(name)) <> 0
  and (pg_sequence_last_value(tenantry.realtime_filter(tenant, name)) & tenantry.realtime_bit(tenant, name)) <> 0`,
  `create function tenantry.open_gate() returns trigger language plpgsql as $body$
begin
  perform setval(gate, 1) from tenantry.realtime_gate(new.table_name) gate where pg_sequence_last_value(gate) is distinct from 1;
  return null;
end
$body$`,
  // A trigger, since servers of the previous version add entries too.
  'create trigger open_gate after insert or update on tenantry.realtime_recorded for each row execute function tenantry.open_gate()',
  `select setval(gate, exists (select from tenantry.realtime_recorded where tenantry.realtime_gate(table_name) = gate)::int)
from unnest(tenantry.realtime_gates()) gate`
]

/** As in realtime-outbox.ts, with cheaper first conditions. */
const recordRow = `create or replace function tenantry.record_row() returns trigger language plpgsql security definer
set search_path = pg_catalog, pg_temp as $body$
declare
  zone text;
  is_foreign boolean;
begin
  if tg_op = 'INSERT' then
    if (${isRecorded('new.tenant_id')}) is not true then
      return null;
    end if;
    if current_setting('TimeZone') = 'UTC' and current_setting('app.tenant_id', true) <> '' then
      insert into tenantry.realtime_outbox (tenant_id, table_name, kind, keys, record)
        values (new.tenant_id, tg_argv[0], 'I', tg_argv[2:], to_json(new));
      return null;
    end if;
  elsif (${isRecorded('old.tenant_id')} or (tg_op = 'UPDATE' and ${isRecorded('new.tenant_id')})) is not true then
    return null;
  end if;
  is_foreign := coalesce(current_setting('app.tenant_id', true), '') = '';
  if is_foreign then
    if tg_argv[1] = 'own' then
      return null;
    end if;
    perform set_config('app.tenant_id', '*', true);
  end if;
  zone := current_setting('TimeZone');
  perform set_config('TimeZone', 'UTC', true);
  if tg_op = 'UPDATE' and old.tenant_id = new.tenant_id and not exists (
    select from unnest(tg_argv[2:]) k where (to_json(old) -> k)::jsonb is distinct from (to_json(new) -> k)::jsonb
  ) then
    insert into tenantry.realtime_outbox (tenant_id, table_name, kind, keys, record, before)
      values (new.tenant_id, tg_argv[0], 'U', tg_argv[2:], to_json(new), to_json(old));
  else
    if tg_op <> 'INSERT' and old.tenant_id is not null then
      insert into tenantry.realtime_outbox (tenant_id, table_name, kind, keys, record)
        values (old.tenant_id, tg_argv[0], 'D', tg_argv[2:], to_json(old));
    end if;
    if tg_op <> 'DELETE' and new.tenant_id is not null then
      insert into tenantry.realtime_outbox (tenant_id, table_name, kind, keys, record)
        values (new.tenant_id, tg_argv[0], 'I', tg_argv[2:], to_json(new));
    end if;
  end if;
  perform set_config('TimeZone', zone, true);
  if is_foreign then
    perform set_config('app.tenant_id', '', true);
  end if;
  return null;
end
$body$`

export const realtimeGates: SystemMigration = {
  description: 'realtime_gates',
  tables: [],
  statements: () => [...gateStatements, recordRow]
}
