/** The size of recorded changes: the trigger cuts large rows, so that their writers spend the time. */
import { isRecorded } from './realtime-triggers.js'
import { systemMigration } from './system-migration.js'

const maxRowBytes = 262_144 // of a row's JSON in a change; of a larger row, a change has the key and short values
const maxValueBytes = 1024 // of those values

/**
 * The JSON of a row without its long values, besides those of its key. In `json`, other programs can store escapes that PostgreSQL
 * cannot read, such as NUL and half of a surrogate pair. All `\u` escapes of such a row become question marks, so that the second call
 * cannot fail.
 */
const cutRow = `create function tenantry.cut_row(source json, keys text[]) returns json language plpgsql immutable strict
set search_path = pg_catalog, pg_temp as $body$
begin
  return (select json_object_agg(m.key, m.value) from json_each(source) m
    where octet_length(m.value::text) <= ${maxValueBytes} or m.key = any (keys));
exception when untranslatable_character or invalid_text_representation then
  return tenantry.cut_row(regexp_replace(source::text, '\\\\u[0-9a-fA-F]{4}', '\\\\u003f', 'g')::json, keys);
end
$body$`

/**
 * As `recordRowBehindGates`, with the sizes. `pg_column_size` reads the length of a value in memory; `octet_length` would copy the value.
 * If PostgreSQL cannot read the keys, an update is recorded as two changes, like an update of a key.
 */
const recordRowWithSize = `create or replace function tenantry.record_row() returns trigger language plpgsql security definer
set search_path = pg_catalog, pg_temp as $body$
declare
  zone text;
  is_foreign boolean;
  was json;
  became json;
  is_was_cut boolean := false;
  is_cut boolean := false;
  is_same boolean := false;
begin
  if tg_op = 'INSERT' then
    if (${isRecorded('new.tenant_id')}) is not true then
      return null;
    end if;
    if current_setting('TimeZone') = 'UTC' and current_setting('app.tenant_id', true) <> '' then
      became := to_json(new);
      if pg_column_size(became) <= ${maxRowBytes} then
        insert into tenantry.realtime_outbox (tenant_id, table_name, kind, keys, record, bytes)
          values (new.tenant_id, tg_argv[0], 'I', tg_argv[2:], became, pg_column_size(became));
        return null;
      end if;
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
  was := to_json(old);
  became := to_json(new);
  if pg_column_size(was) > ${maxRowBytes} then
    is_was_cut := true;
    was := tenantry.cut_row(was, tg_argv[2:]);
  end if;
  if pg_column_size(became) > ${maxRowBytes} then
    is_cut := true;
    became := tenantry.cut_row(became, tg_argv[2:]);
  end if;
  if tg_op = 'UPDATE' and old.tenant_id = new.tenant_id then
    begin
      is_same := not exists (
        select from unnest(tg_argv[2:]) k where (was -> k)::jsonb is distinct from (became -> k)::jsonb
      );
    exception when untranslatable_character or invalid_text_representation then
      is_same := false;
    end;
  end if;
  if is_same then
    insert into tenantry.realtime_outbox (tenant_id, table_name, kind, keys, record, before, bytes, cut)
      values (new.tenant_id, tg_argv[0], 'U', tg_argv[2:], became, was, pg_column_size(became) + pg_column_size(was), is_cut);
  else
    if tg_op <> 'INSERT' and old.tenant_id is not null then
      insert into tenantry.realtime_outbox (tenant_id, table_name, kind, keys, record, bytes, cut)
        values (old.tenant_id, tg_argv[0], 'D', tg_argv[2:], was, pg_column_size(was), is_was_cut);
    end if;
    if tg_op <> 'DELETE' and new.tenant_id is not null then
      insert into tenantry.realtime_outbox (tenant_id, table_name, kind, keys, record, bytes, cut)
        values (new.tenant_id, tg_argv[0], 'I', tg_argv[2:], became, pg_column_size(became), is_cut);
    end if;
  end if;
  perform set_config('TimeZone', zone, true);
  if is_foreign then
    perform set_config('app.tenant_id', '', true);
  end if;
  return null;
end
$body$`

const isLarge = (row: string): string => `octet_length(${row}::text) > ${maxRowBytes}`
const cut = (row: string): string => `case when ${isLarge(row)} then tenantry.cut_row(${row}, keys) else ${row} end`

/** Changes that the previous function recorded. */
const cutWaiting = `update tenantry.realtime_outbox set record = ${cut('record')}, before = ${cut('before')}, cut = ${isLarge('record')}
where bytes = 0 and (${isLarge('record')} or ${isLarge('before')})`

/**
 * The statement that gives positions to the changes of all tenants must not parse their JSON: it would fail at JSON that PostgreSQL cannot
 * read, and parsing large rows would delay all tenants. It reads `bytes` and `cut` instead.
 */
export const realtimeSizes = systemMigration('realtime_sizes', [], [
  cutRow,
  'alter table tenantry.realtime_outbox add column bytes int not null default 0, add column cut boolean not null default false',
  recordRowWithSize,
  cutWaiting
])
