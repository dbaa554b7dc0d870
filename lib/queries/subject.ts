/** The common start of every operation on a table: its table, its filters, and the members of its records. */
import type { Table } from '../database/catalogue.js'
import type { Reference } from '../expressions/types.js'
import { nearest, pointerTo } from '../schema/faults.js'
import type { Query } from '../schema/query.js'
import type { QueryContext } from './context.js'
import { embedUses } from './embed.js'
import { hasField, isEmbed, namesOf, type Selection, tablesOf, withoutFields } from './field.js'
import { type CompiledFilters, compileFilters } from './filter.js'
import { withKey } from './row-key.js'
import { compileSelection } from './selection.js'
import { type Draft, hasFullAccess, type Switch } from './sql.js'
import { withoutWithheld } from './withheld.js'

/** A query's table with the parts that do not depend on the operation. */
export interface Subject {
  readonly query: Query
  readonly table: Table
  readonly pointer: string
  readonly context: QueryContext
  /** Excluded fields: the route's and the query's. */
  readonly excluded: ReadonlySet<string>
  /** All members of a record for callers with full access, without values from secrets. */
  readonly full: Selection
  /** Without the excluded fields. */
  readonly reduced: Selection
  /** The members of a record for the switches of a request. */
  readonly selection: (draft: Draft) => Selection
  readonly filters: CompiledFilters
  /** The switches of the members, of the filters and of the embeds. */
  readonly switches: readonly Switch[]
  /** The references of the filters and of the embeds. */
  readonly references: readonly Reference[]
  readonly tenantScoped: boolean
}

/** Compiles the parts that all operations share. After faults, the result serves only to find the faults of the operation. */
export function compileSubject (query: Query, table: Table, pointer: string, context: QueryContext): Subject {
  const selection = compileSelection(query, table, pointer, context)
  const asked = selection ?? { table, fields: [] }
  const full = withoutWithheld(asked, context.withheld)
  if (query.operation !== 'select') refuseReading(query, asked, pointer, context)
  const excluded = new Set([...context.excludeFields, ...query.excludeFields ?? []])
  if (selection !== undefined) checkExcluded(query, namesOf(asked), table.name, pointer, context)
  // For an upsert, filters are values, not conditions; the same applies to the id of an insert.
  const creates = query.operation === 'insert' || query.operation === 'upsert'
  const own = compileFilters(creates ? [] : query.filters, table, pointerTo(pointer, 'filters'), context)
  const filters = query.id === undefined || creates ? own : withKey(own, query.id, table, pointerTo(pointer, 'id'), context)

  const embeds = embedUses(full)
  const isReduced = hasField(full, excluded)
  const reduced = isReduced ? withoutFields(full, excluded) : full
  return {
    query,
    table,
    pointer,
    context,
    excluded,
    full,
    reduced,
    selection: (draft) => draft.has(hasFullAccess) ? full : reduced,
    filters,
    switches: [...isReduced ? [hasFullAccess] : [], ...filters.switches, ...embeds.switches],
    references: [...filters.references, ...embeds.references],
    tenantScoped: tablesOf(full).some((each) => each.tenantScoped)
  }
}

/** A write returns each written row: no aggregates, no inner embeds. A `delete` returns none, and its `select` is reported elsewhere. */
function refuseReading ({ operation }: Query, { grouped, fields }: Selection, pointer: string, { faults }: QueryContext): void {
  if (operation === 'delete') return
  const inner = fields.find((field) => isEmbed(field) && field.rows.inner)
  const refused = grouped === true ? 'aggregates need' : inner === undefined ? undefined : `\`!inner\` of "${inner.name}" needs`
  if (refused !== undefined) {
    faults.add(pointerTo(pointer, 'select'), `an \`${operation}\` returns the rows that it writes: ${refused} \`operation: select\``)
  }
}

/** Without this check, a misspelled field would not be excluded. The route's fields may belong to another query. */
export function checkExcluded (
  { excludeFields = [] }: Query,
  known: ReadonlySet<string>,
  source: string,
  pointer: string,
  { faults }: QueryContext
): void {
  for (const [index, name] of excludeFields.entries()) {
    if (!known.has(name)) {
      faults.add(pointerTo(pointer, 'excludeFields', index), `no record of "${source}" has a field "${name}"`, nearest(name, known))
    }
  }
}
