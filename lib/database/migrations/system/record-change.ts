/** The function of the triggers that record changes of rows. */
import type { SystemMigration } from './system-migration.js'

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

export const recordChanges: SystemMigration = { description: 'record_change', tables: [], statements: () => [recordChange] }
