/** Adds a column whose default differs for each row, in small batches: PostgreSQL would rewrite the whole table and block it. */
import { hash } from 'node:crypto'
import { everyTenant, tenantSetting } from '../connections.js'
import type { WantedColumn } from '../declared-tables.js'
import { hintOf } from '../failures.js'
import { identifier, literal } from '../sql.js'
import { change, lockTimeoutMs, type MigrationStep, scan } from './steps.js'

const pagesAtOnce = 32 // some 5,000 rows at most, which stay locked until their batch is committed

/** The comment of a column while some rows have no value yet. */
export const fillingMark = 'tenantry: its rows are being given their values'

/** Values of the default differ between rows. */
export function isFilled ({ default: value }: WantedColumn): boolean {
  return value === 'uuid()'
}

export function addFilled (table: string, column: WantedColumn, defaultText: string): MigrationStep[] {
  const name = identifier(column.name)
  return [
    ...change(table, [
      `alter table ${table} add column ${name} ${column.type}`,
      `alter table ${table} alter column ${name} set default ${defaultText}`,
      `comment on column ${table}.${name} is ${literal(fillingMark)}`
    ]),
    ...fill(table, column)
  ]
}

/** The remaining work for a column with the mark. */
export function fill (table: string, column: WantedColumn): MigrationStep[] {
  const name = identifier(column.name)
  const unmark = `comment on column ${table}.${name} is null`
  const filling: MigrationStep = { kind: 'alone', table, statements: [fillSql(table, name)] }
  if (!column.notNull) return [filling, ...change(table, [unmark])]
  const drop = `alter table ${table} drop constraint if exists ${checkName(column)}`
  return [
    filling,
    // Not earlier: PostgreSQL would refuse updates of rows without a value.
    ...change(table, [drop, `alter table ${table} add constraint ${checkName(column)} check (${name} is not null) not valid`]),
    scan(table, `alter table ${table} validate constraint ${checkName(column)}`),
    // A validated check saves PostgreSQL the scan.
    ...change(table, [`alter table ${table} alter column ${name} set not null`, drop, unmark])
  ]
}

function checkName ({ name }: WantedColumn): string {
  return identifier(`tenantry_filled_${hash('sha256', name).slice(0, 8)}`)
}

/** Whether the fill whose lock another session held has filled rows before. It keeps them. */
export function hasFilled (error: unknown): boolean {
  return /^rows filled: [1-9]/.test(hintOf(error) ?? '')
}

/**
 * Passes over the pages until nothing is left to fill, as an update may move a row to an earlier page. Each batch repeats its settings. The
 * error about a lock of another session says how many rows are filled.
 */
function fillSql (table: string, column: string): string {
  const settings = `perform set_config(${literal(tenantSetting)}, ${literal(everyTenant)}, true), set_config('lock_timeout', '${lockTimeoutMs}ms', true);`
  const update = `update only %s set ${column} = default where ${column} is null`
  const batch = `${update} and ctid >= %L::tid and ctid < %L::tid`
  const isHeld = 'lock_not_available or deadlock_detected or serialization_failure'
  const run = (statement: string) =>
    `begin execute ${statement};
        exception when ${isHeld} then raise exception using errcode = sqlstate, message = sqlerrm, hint = 'rows filled: ' || total;
        end;`
  return `do $fill$
declare
  parts regclass[] := array(with recursive kin (oid) as (select ${
    literal(table)
  }::regclass::oid union select inhrelid from pg_inherits join kin on inhparent = kin.oid)
    select kin.oid::regclass from kin join pg_class c on c.oid = kin.oid where c.relkind = 'r');
  part regclass;
  page bigint;
  filled bigint;
  found bigint;
  total bigint := 0;
begin
  ${settings}
  loop
    found := 0;
    foreach part in array parts loop
      page := 0;
      while page * current_setting('block_size')::bigint <= pg_relation_size(part) loop
        ${run(`format(${literal(batch)}, part, format('(%s,0)', page), format('(%s,0)', page + ${pagesAtOnce}))`)}
        get diagnostics filled = row_count;
        found := found + filled;
        page := page + ${pagesAtOnce};
        commit;
        total := total + filled;
        ${settings}
      end loop;
    end loop;
    exit when found = 0;
  end loop;
  foreach part in array parts loop
    ${run(`format(${literal(update)}, part)`)}
  end loop;
end
$fill$`
}
