/**
 * Realtime: changes of rows, which a trigger writes beside the rows themselves; the head of each tenant's changes; who is
 * in which room; and messages of rooms on their way to other processes.
 */
import type { SystemMigration } from './system-migration.js'
import { maxChangeBytes, recordFunction } from '../change-triggers.js'
import { noSecurity, policyStatements } from '../policies.js'

const owned = ['tenantry.realtime_changes', 'tenantry.realtime_heads', 'tenantry.realtime_members', 'tenantry.realtime_messages']

/**
 * Arguments: the columns of the key. A row that gets another tenant or key is two changes. `before` has the old values of
 * changed columns. A row that is too large keeps its short columns. A session of another
 * program has no `app.tenant_id`, which the policies ask for.
 */
const record = `create function ${recordFunction}() returns trigger language plpgsql security definer
set search_path = pg_catalog, pg_temp set timezone = 'UTC' as $body$
declare
  was jsonb := case when tg_op <> 'INSERT' then to_jsonb(old) end;
  became jsonb := case when tg_op <> 'DELETE' then to_jsonb(new) end;
  told json := case when tg_op = 'DELETE' then to_json(old) else to_json(new) end;
  is_cut boolean := octet_length(told::text) > ${maxChangeBytes};
  was_key jsonb;
  key jsonb;
  earlier jsonb;
  is_foreign boolean := coalesce(current_setting('app.tenant_id', true), '') = '';
begin
  if tg_nargs = 1 then
    was_key := jsonb_build_object(tg_argv[0], was -> tg_argv[0]);
    key := jsonb_build_object(tg_argv[0], became -> tg_argv[0]);
  else
    was_key := (select jsonb_object_agg(k, was -> k) from unnest(tg_argv) k);
    key := (select jsonb_object_agg(k, became -> k) from unnest(tg_argv) k);
  end if;
  if coalesce(became, was) -> 'tenant_id' = 'null' then
    return null;
  end if;
  if is_foreign then
    perform set_config('app.tenant_id', '*', true);
  end if;
  if is_cut then
    told := (select json_object_agg(m.key, m.value) from json_each(told) m where octet_length(m.value::text) <= 1024);
  end if;
  if tg_op = 'UPDATE' and (was_key <> key or was -> 'tenant_id' <> became -> 'tenant_id') then
    insert into tenantry.realtime_changes (tenant_id, table_name, kind, key, record, cut)
      values (was ->> 'tenant_id', tg_table_name, 'D', was_key, (select jsonb_object_agg(m.key, m.value) from jsonb_each(was) m where octet_length(m.value::text) <= 1024)::json, is_cut);
    insert into tenantry.realtime_changes (tenant_id, table_name, kind, key, record, cut)
      values (became ->> 'tenant_id', tg_table_name, 'I', key, told, is_cut);
  else
    if tg_op = 'UPDATE' then
      earlier := (select coalesce(jsonb_object_agg(m.key, m.value), '{}') from jsonb_each(was) m where m.value is distinct from became -> m.key and octet_length(m.value::text) <= 1024);
    end if;
    insert into tenantry.realtime_changes (tenant_id, table_name, kind, key, record, before, cut)
      values (coalesce(became, was) ->> 'tenant_id', tg_table_name, left(tg_op, 1), case when tg_op = 'DELETE' then was_key else key end, told, earlier, is_cut);
  end if;
  if is_foreign then
    perform set_config('app.tenant_id', '', true);
  end if;
  return null;
end
$body$`

export const realtime: SystemMigration = {
  description: 'realtime',
  tables: [...owned, 'tenantry.realtime_instances'],
  statements: ({ policies }) => [
    // `place` orders the changes of a transaction; `position` is given after the commit, and is what clients see.
    `create table tenantry.realtime_changes (
  tenant_id text collate "C" not null,
  place bigint generated always as identity,
  position bigint,
  table_name text not null,
  kind text not null check (kind in ('I', 'U', 'D')),
  key jsonb not null,
  record json not null,
  before jsonb,
  cut boolean not null,
  at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, place)
)`,
    'create index realtime_changes_new on tenantry.realtime_changes (tenant_id, place) where position is null',
    'create unique index realtime_changes_order on tenantry.realtime_changes (tenant_id, position) where position is not null',
    `create table tenantry.realtime_heads (
  tenant_id text collate "C" primary key,
  position bigint not null,
  floor bigint not null default 0,
  stamp bigint not null
)`,
    // Which tenants have changes since a process looked last.
    'create index realtime_heads_news on tenantry.realtime_heads (stamp)',
    'create sequence tenantry.realtime_stamps',
    'create table tenantry.realtime_instances (id uuid primary key, seen_at timestamptz not null)',
    `create table tenantry.realtime_members (
  tenant_id text collate "C" not null,
  room text not null,
  id uuid not null,
  instance_id uuid not null,
  state json,
  place bigint generated always as identity,
  primary key (tenant_id, room, id)
)`,
    'create index on tenantry.realtime_members (instance_id)',
    `create table tenantry.realtime_messages (
  tenant_id text collate "C" not null,
  instance_id uuid not null,
  number bigint not null,
  messages text not null,
  at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, instance_id, number)
)`,
    'create index realtime_messages_order on tenantry.realtime_messages (instance_id, number)',
    record,
    ...policies ? owned.flatMap((table) => policyStatements(table, 'text', noSecurity)) : []
  ]
}
