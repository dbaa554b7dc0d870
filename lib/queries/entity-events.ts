/** Events of written rows, for outbound webhooks, written by the same statement. `w` is its part with the written rows. */
import { type Catalogue, keyColumns, type Table, tenantColumn } from '../database/catalogue.js'
import { eventsTable, maxEventBytes } from '../database/outbox.js'
import { literal } from '../database/sql.js'
import type { Scope } from '../expressions/types.js'
import type { QueryContext, Withheld } from './context.js'
import { everyColumn } from './field.js'
import {
  type Binder, type Bound, columnOf, compileVariants, Draft, freeName, type Input, quote, type Switch,
  tableName
} from './sql.js'
import { withoutWithheld } from './withheld.js'

/** The kind of an event, or its SQL for a row of `w`. */
type EventKind = 'created' | 'updated' | 'deleted' | ((row: string) => string)

/** As compileVariants, for a write. Without subscribers the statement writes no events; the variant with events is compiled on demand. */
export function compileWrite (
  origin: QueryContext['origin'],
  switches: readonly Switch[],
  write: (draft: Draft, events: boolean) => string
): (scope: Scope, input?: Input) => Bound {
  const use = { origin, isRead: false }
  const silent = compileVariants(use, switches, (draft) => write(draft, false))
  let telling: typeof silent | undefined
  return (scope, input) => {
    if (scope.events !== true) return silent(scope, input)
    telling ??= compileVariants(use, switches, (draft) => write(draft, true))
    return telling(scope, input)
  }
}

/** The additional columns of `returning` for `upsertKind`. A row that no transaction has locked or changed is new. */
export function returnMade (table: Table, alias: string): string {
  // Rows of partitions have no system columns in `returning`.
  return table.partitioned !== true ? `, (${alias}.xmax = 0) as ${quote(freeName(table, 'made'))}` : ''
}

/** For an upsert: whether a row of `w` is new. For a partitioned table: whether the row existed when the statement began. */
export function upsertKind (table: Table, { schema }: Catalogue, conflict: readonly string[], draft: Draft): (row: string) => string {
  return (row) => {
    if (table.partitioned !== true) {
      return `case when ${columnOf(row, freeName(table, 'made'))} then 'entity.created' else 'entity.updated' end`
    }
    const before = draft.alias()
    const same = conflict.map((name) => `${columnOf(before, name)} = ${columnOf(row, name)}`).join(' and ')
    return `case when exists (select from ${tableName(schema, table)} ${before} where ${same}) then 'entity.updated' else 'entity.created' end`
  }
}

/** `, e as (insert ...)`: one event for each row of `w`. Columns that the route writes from secrets are omitted. */
export function tableEvents (table: Table, withheld: Withheld | undefined, kind: EventKind, draft: Draft): string {
  const row = draft.alias()
  const { fields } = withoutWithheld({ table, fields: everyColumn(table) }, withheld)
  const kept = new Set(fields.map(({ name }) => name))
  // The event omits a key that comes from a secret.
  const keys = keyColumns(table).every((name) => kept.has(name)) ? keyColumns(table) : []
  const columns = fields.map(({ name }) => columnOf(row, name)).join(', ')
  return insertEvents({
    row,
    tenant: table.tenantScoped ? `${columnOf(row, tenantColumn)}::text` : "''",
    subject: keys.length === 0
      ? literal(table.name)
      : [literal(`${table.name}:`), keys.map((name) => `${columnOf(row, name)}::text`).join(" || ',' || ")].join(' || '),
    name: literal(table.name),
    id: entityId(row, keys),
    record: columns === '' ? "'{}'::json" : `(select row_to_json(x.*) from (select ${columns}) x)`
  }, kind, draft)
}

/** The `id` of an event: the value of the key, or an object if the key has several columns. */
function entityId (row: string, keys: readonly string[]): string {
  const [key, ...others] = keys
  if (key === undefined) return 'null::json'
  if (others.length === 0) return `to_json(${columnOf(row, key)})`
  return `json_build_object(${keys.map((name) => `${literal(name)}, ${columnOf(row, name)}`).join(', ')})`
}

/** As `tableEvents`, for documents: `w` has their `tenant_id`, `id`, and `record` as jsonb. */
export function documentEvents (collection: Binder, kind: EventKind, draft: Draft): string {
  const row = draft.alias()
  const name = draft.add(collection, 'text')
  return insertEvents({
    row,
    tenant: columnOf(row, tenantColumn),
    subject: `concat(${name}, ':', ${columnOf(row, 'id')})`,
    name,
    id: `to_json(${columnOf(row, 'id')})`,
    record: `${columnOf(row, 'record')}::json`
  }, kind, draft)
}

const depthOf: Binder = ({ depth = 0 }) => depth

/** The SQL of an event. `row`: the alias of a row of `w`. */
type EventParts = Readonly<Record<'row' | 'tenant' | 'subject' | 'name' | 'id' | 'record', string>>

function insertEvents ({ row, tenant, subject, name, id, record }: EventParts, kind: EventKind, draft: Draft): string {
  const type = typeof kind === 'function' ? kind(row) : `'entity.${kind}'`
  const depth = draft.add(depthOf, 'int2')
  const members = `'table', ${name}, 'id', ${id}`
  const data =
    `case when octet_length(j.record::text) > ${maxEventBytes} then json_build_object(${members}, 'record', null, 'truncated', true) else json_build_object(${members}, 'record', j.record) end`
  return `, e as (insert into ${eventsTable} (tenant_id, type, subject, data, at, depth) ` +
    `select ${tenant}, ${type}, ${subject}, ${data}, now(), ${depth} from w ${row}, lateral (select ${record} as record offset 0) j)`
}
