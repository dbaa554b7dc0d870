/**
 * Changes are recorded only if a client may watch them. `realtime_recorded` has an entry for each table of a tenant that is watched, or was
 * watched recently. A trigger writes to `realtime_outbox`. After the commit, the change moves to `realtime_changes` with its position.
 */
import { noSecurity, policyStatements } from '../policies.js'
import type { SystemMigration } from './system-migration.js'

const owned = ['tenantry.realtime_outbox', 'tenantry.realtime_recorded']
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

export const realtimeOutbox: SystemMigration = {
  description: 'realtime_outbox',
  tables: owned,
  statements: ({ policies }) => [
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
    'drop index tenantry.realtime_changes_new',
    ...policies ? owned.flatMap((table) => policyStatements(table, 'text', noSecurity)) : []
  ]
}
