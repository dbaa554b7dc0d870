/** The triggers that record changes of rows. */
import { gateCount, gateName } from '../change-triggers.js'
import { systemMigration } from './system-migration.js'

const maxChangeBytes = 262_144

/**
 * Arguments: the columns of the key. A row whose tenant or key changes is recorded as two changes. `before` has the old values of
 * changed columns. A row that is too large keeps only its short columns. Sessions of other programs lack `app.tenant_id`, which
 * the policies require. Each expression costs a write of one row some microseconds. Therefore the most frequent case comes first,
 * and only an update is read as jsonb.
 */
const recordChange = `create or replace function tenantry.record_change() returns trigger language plpgsql security definer
set search_path = pg_catalog, pg_temp set timezone = 'UTC' as $body$
declare
  owner text;
  told json;
  key jsonb;
  is_cut boolean;
  was jsonb;
  became jsonb;
  was_key jsonb;
  earlier jsonb;
  is_foreign boolean;
begin
  if tg_op = 'INSERT' then
    told := to_json(new);
    if tg_nargs = 1 and new.tenant_id is not null and octet_length(told::text) <= ${maxChangeBytes} and coalesce(current_setting('app.tenant_id', true), '') <> '' then
      insert into tenantry.realtime_changes (tenant_id, table_name, kind, key, record, cut)
        values (new.tenant_id, tg_table_name, 'I', jsonb_build_object(tg_argv[0], told -> tg_argv[0]), told, false);
      return null;
    end if;
  end if;
  is_foreign := coalesce(current_setting('app.tenant_id', true), '') = '';
  if tg_op = 'DELETE' then
    owner := old.tenant_id;
    told := to_json(old);
  else
    owner := new.tenant_id;
    told := to_json(new);
  end if;
  if tg_nargs = 1 then
    key := jsonb_build_object(tg_argv[0], told -> tg_argv[0]);
  else
    key := (select jsonb_object_agg(k, told -> k) from unnest(tg_argv) k);
  end if;
  if owner is null then
    return null;
  end if;
  if is_foreign then
    perform set_config('app.tenant_id', '*', true);
  end if;
  is_cut := octet_length(told::text) > ${maxChangeBytes};
  if is_cut then
    told := (select json_object_agg(m.key, m.value) from json_each(told) m where octet_length(m.value::text) <= 1024);
  end if;
  if tg_op = 'UPDATE' then
    was := to_jsonb(old);
    became := to_jsonb(new);
    was_key := (select jsonb_object_agg(k, was -> k) from unnest(tg_argv) k);
    if was_key <> key or old.tenant_id::text <> owner then
      insert into tenantry.realtime_changes (tenant_id, table_name, kind, key, record, cut)
        values (old.tenant_id, tg_table_name, 'D', was_key, (select jsonb_object_agg(m.key, m.value) from jsonb_each(was) m where octet_length(m.value::text) <= 1024)::json, is_cut);
      insert into tenantry.realtime_changes (tenant_id, table_name, kind, key, record, cut)
        values (owner, tg_table_name, 'I', key, told, is_cut);
    else
      earlier := (select coalesce(jsonb_object_agg(m.key, m.value), '{}') from jsonb_each(was) m where m.value is distinct from became -> m.key and octet_length(m.value::text) <= 1024);
      insert into tenantry.realtime_changes (tenant_id, table_name, kind, key, record, before, cut)
        values (owner, tg_table_name, 'U', key, told, earlier, is_cut);
    end if;
  else
    insert into tenantry.realtime_changes (tenant_id, table_name, kind, key, record, cut)
      values (owner, tg_table_name, left(tg_op, 1), key, told, is_cut);
  end if;
  if is_foreign then
    perform set_config('app.tenant_id', '', true);
  end if;
  return null;
end
$body$`

export const recordChanges = systemMigration('record_change', [], [recordChange])

const filters = Array.from({ length: 16 }, (_, index) => `tenantry.realtime_filter_${index}`)

/**
 * A look-up of the entry would cost a write 3 % of its CPU. Therefore the entries are also in a Bloom filter of 1,024 bits, which
 * a trigger reads in less than a microsecond. The bits are the last values of sequences, which are visible at once, whatever the
 * snapshot. A change that passes the filter by chance is dropped when the others move. With Citus, each node has its own sequences:
 * there the filter has to become a look-up of the entry.
 */
const filterStatements = [
  ...filters.map((name) => `create sequence ${name} minvalue ${-(2n ** 63n)} start 0`),
  `create function tenantry.realtime_filters() returns regclass[] language sql immutable
return array[${filters.map((name) => `'${name}'::regclass`).join(', ')}]`,
  `create function tenantry.realtime_filter(tenant text, name text) returns regclass language sql immutable
return (tenantry.realtime_filters())[1 + ((hashtext(tenant || name) >> 6) & ${filters.length - 1})]`,
  `create function tenantry.realtime_bit(tenant text, name text) returns bigint language sql immutable
return 1::bigint << (hashtext(tenant || name) & 63)`,
  `create function tenantry.is_recorded(tenant text, name text) returns boolean language sql volatile
return (pg_sequence_last_value(tenantry.realtime_filter(tenant, name)) & tenantry.realtime_bit(tenant, name)) <> 0`
]

/**
 * Arguments: the name of the table (for a partition, its root's name); `all`, or `own` for only the sessions of this server,
 * which have the setting `app.tenant_id`; the columns of the key. Each expression costs a write of one row half a microsecond, so
 * the most frequent cases come first.
 */
const recordRow = `create function tenantry.record_row() returns trigger language plpgsql security definer
set search_path = pg_catalog, pg_temp as $body$
declare
  zone text;
  is_foreign boolean;
begin
  if (tenantry.is_recorded(coalesce(new.tenant_id, old.tenant_id)::text, tg_argv[0])
    or (tg_op = 'UPDATE' and tenantry.is_recorded(old.tenant_id::text, tg_argv[0]))) is not true then
    return null;
  end if;
  if tg_op = 'INSERT' and current_setting('TimeZone') = 'UTC' and current_setting('app.tenant_id', true) <> '' then
    insert into tenantry.realtime_outbox (tenant_id, table_name, kind, keys, record)
      values (new.tenant_id, tg_argv[0], 'I', tg_argv[2:], to_json(new));
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

/** Triggers of the previous version call it until they are replaced. A table with such a trigger cannot be watched. */
const earlierFunction = `create or replace function tenantry.record_change() returns trigger language plpgsql as $body$
begin
  return null;
end
$body$`

/**
 * Changes are recorded only if a client may watch them. `realtime_recorded` has an entry for each table of a tenant that is watched, or was
 * watched recently. A trigger writes to `realtime_outbox`. After the commit, the change moves to `realtime_changes` with its position.
 */
export const realtimeOutbox = systemMigration('realtime_outbox', ['tenantry.realtime_outbox', 'tenantry.realtime_recorded'], [
  // A single index, because each index, and each condition of an index, adds cost to the recorded write.
  `create table tenantry.realtime_outbox (
  tenant_id text collate "C" not null,
  place bigint generated always as identity,
  table_name text not null,
  kind text not null,
  keys text[] not null,
  record json not null,
  before json,
  primary key (tenant_id, place)
)`,
  // Changes behind \`start\` are all recorded; null until that is so.
  `create table tenantry.realtime_recorded (
  tenant_id text collate "C" not null,
  table_name text collate "C" not null,
  start bigint,
  until timestamptz not null,
  primary key (tenant_id, table_name)
)`,
  ...filterStatements,
  recordRow,
  earlierFunction,
  'delete from tenantry.realtime_changes where position is null',
  'drop index tenantry.realtime_changes_new'
])

const gates = Array.from({ length: gateCount }, (_, number) => gateName(number))
const filterClasses = Array.from({ length: 16 }, (_, index) => `'tenantry.realtime_filter_${index}'::regclass`)

/** SQL for whether the filter has the tenant. PostgreSQL runs it in half the time of `is_recorded`. */
export const isRecorded = (tenant: string): string => {
  const hash = `hashtext(${tenant}::text || tg_argv[0])`
  return `(pg_sequence_last_value((array[${filterClasses.join(', ')}])[1 + ((${hash} >> 6) & ${filterClasses.length - 1})]) & (1::bigint << (${hash} & 63))) <> 0`
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

/** As `recordRow`, with cheaper first conditions. */
const recordRowBehindGates = `create or replace function tenantry.record_row() returns trigger language plpgsql security definer
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

/**
 * Triggers of watched tables read a gate, so that PostgreSQL does not call their function while no client may watch the table. A
 * call costs three times as much. A gate is a sequence, because its last value is visible at once, whatever the snapshot. It is 1
 * while `realtime_recorded` has an entry for one of its tables, else 0.
 */
export const realtimeGates = systemMigration('realtime_gates', [], [...gateStatements, recordRowBehindGates])
