/** The start of every operation on a table: its table, filters, and the members of its records. */
import type { Query } from '../schema/query.js'
import type { Table } from '../database/catalogue.js'
import type { QueryContext } from './context.js'
import type { Switch } from './statement.js'
import { nearest, pointerTo } from '../schema/faults.js'
import { type CompiledFilters, compileFilters } from './filter.js'
import { embedUses, type EmbedUses } from './embed-rows.js'
import { withKey } from './row-key.js'
import { hasField, isEmbed, namesOf, type Selection, tablesOf, withoutFields } from './field.js'
import { compileSelection } from './selection.js'
import { withoutWithheld } from './withheld.js'

/** A query's table with what is known of it before its operation is looked at. */
export interface Subject {
  readonly query: Query
  readonly table: Table
  readonly pointer: string
  readonly context: QueryContext
  /** Excluded fields: the route's and the query's. */
  readonly excluded: ReadonlySet<string>
  /** All members of a record, as callers with full access see it: without what comes from secrets. */
  readonly full: Selection
  /** Without the excluded fields. */
  readonly reduced: Selection
  /** On where the caller has full access; none where nothing that a record holds is excluded. */
  readonly accessSwitches: readonly Switch[]
  /** The members of a record for the switches of a request. */
  readonly selection: (on: ReadonlySet<Switch>) => Selection
  readonly filters: CompiledFilters
  /** Of the embeds of all members. */
  readonly embedUses: EmbedUses
  /** A record is read from a table of tenants. */
  readonly tenantScoped: boolean
}

const hasFullAccess: Switch = (scope) => scope.fullAccess

/** Compiles what all operations share. With faults it is good for finding the faults of the operation too. */
export function compileSubject (query: Query, table: Table, pointer: string, context: QueryContext): Subject {
  const selection = compileSelection(query, table, pointer, context)
  const asked = selection ?? { table, fields: [] }
  const full = context.withheld === undefined ? asked : withoutWithheld(asked, context.withheld)
  if (query.operation !== 'select') refuseReading(query, asked, pointer, context)
  const excluded = new Set([...context.excludeFields, ...query.excludeFields ?? []])
  if (selection !== undefined) checkExcluded(query, asked, pointer, context)
  // An upsert's filters and the id of a write that creates are values, not conditions.
  const creates = query.operation === 'insert' || query.operation === 'upsert'
  const own = compileFilters(creates ? [] : query.filters, table, pointerTo(pointer, 'filters'), context)
  const filters = query.id === undefined || creates ? own : withKey(own, query.id, table, pointerTo(pointer, 'id'), context)

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
    accessSwitches: isReduced ? [hasFullAccess] : [],
    selection: (on) => on.has(hasFullAccess) ? full : reduced,
    filters,
    embedUses: embedUses(full),
    tenantScoped: tablesOf(full).some((each) => each.tenantScoped)
  }
}

/** A write answers each row that it writes; a `delete` answers none, and has its fault for any `select`. */
function refuseReading ({ operation }: Query, { grouped, fields }: Selection, pointer: string, { faults }: QueryContext): void {
  if (operation === 'delete') return
  const inner = fields.find((field) => isEmbed(field) && field.rows.inner)
  const refused = grouped === true ? 'aggregates need' : inner === undefined ? undefined : `\`!inner\` of "${inner.name}" needs`
  if (refused !== undefined) {
    faults.add(pointerTo(pointer, 'select'), `an \`${operation}\` answers the rows that it writes: ${refused} \`operation: select\``)
  }
}

/** A misspelt field would not be excluded. The route's fields may belong to another of its queries. */
function checkExcluded ({ excludeFields }: Query, selection: Selection, pointer: string, { faults }: QueryContext): void {
  const known = namesOf(selection)
  for (const [index, name] of (excludeFields ?? []).entries()) {
    if (!known.has(name)) {
      faults.add(
        pointerTo(pointer, 'excludeFields', index),
        `no record of "${selection.table.name}" has a field "${name}"`,
        nearest(name, known)
      )
    }
  }
}
