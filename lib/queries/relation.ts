/** The relation of an embedded table: a foreign key of either table, or a junction table. */
import { type Catalogue, type ForeignKey, type Table, tenantColumn } from '../database/catalogue.js'
import type { SelectItem } from './select-parser.js'

/** Pairs of equal columns: the left one in the embedding table (or junction), the right one in the embedded table (or junction). */
export type Pairs = readonly (readonly [left: string, right: string])[]

export interface Relation {
  readonly table: Table
  /** An array of records; otherwise one record, or null. */
  readonly many: boolean
  /** Between the two tables, or between the embedding table and the junction. */
  readonly on: Pairs
  /** The junction table of a many-to-many relation, and its columns that match the embedded table. */
  readonly junction?: { readonly table: Table, readonly on: Pairs }
}

interface Candidate {
  readonly relation: Relation
  readonly key: ForeignKey
  /** The names by which a `select` can choose it, the preferred one first. */
  readonly hints: readonly string[]
}

/** The relation for an item of a `select`, or the reason why there is none. */
export function findRelation (catalogue: Catalogue, table: Table, { name, hint }: SelectItem): Relation | string {
  const target = catalogue.tables.get(name)
  if (target === undefined) return followColumn(catalogue, table, name)
  const direct = [...forward(table, target), ...reverse(table, target)]
  const candidates = direct.length > 0 ? direct : through(catalogue, table, target)
  const matching = hint === undefined ? candidates : candidates.filter(({ hints }) => hints.includes(hint))
  if (matching.length === 1) return matching[0]!.relation
  if (candidates.length === 0) return `there is no foreign key between "${table.name}" and "${name}"`
  const choices = candidates.map((candidate) => describe(candidate, candidates)).join(', ')
  return hint === undefined || matching.length > 1
    ? `several foreign keys connect "${table.name}" and "${name}": write one of ${choices}`
    : `no foreign key "${hint}" connects "${table.name}" and "${name}": write one of ${choices}`
}

/** `author_id(name)`: the table that the column's foreign key refers to. */
function followColumn (catalogue: Catalogue, table: Table, name: string): Relation | string {
  const keys = table.foreignKeys.filter((key) => ownColumn(key) === name)
  const target = keys.length === 1 ? catalogue.tables.get(keys[0]!.referencedTable) : undefined
  return target === undefined ? `there is no table "${name}"` : forward(table, target).find(({ key }) => key === keys[0])!.relation
}

/** A key of a table to itself connects its rows in both directions: its column is the hint of the one, its name that of the many. */
function forward (table: Table, target: Table): Candidate[] {
  return table.foreignKeys.filter((key) => key.referencedTable === target.name).map((key) => ({
    key,
    hints: namesOf(key).filter((name) => table !== target || name !== key.name),
    relation: { table: target, many: false, on: key.columns.map((column, index) => [column, key.referencedColumns[index]!] as const) }
  }))
}

function reverse (table: Table, target: Table): Candidate[] {
  return target.foreignKeys.filter((key) => key.referencedTable === table.name).map((key) => ({
    key,
    hints: table === target ? [key.name] : namesOf(key),
    relation: {
      table: target,
      many: !isUnique(target, key.columns),
      on: key.columns.map((column, index) => [key.referencedColumns[index]!, column] as const)
    }
  }))
}

/** Tables whose primary key contains a foreign key to each of the two tables. */
function through (catalogue: Catalogue, table: Table, target: Table): Candidate[] {
  const candidates: Candidate[] = []
  for (const junction of catalogue.tables.values()) {
    const inKey = (key: ForeignKey): boolean => key.columns.every((column) => junction.primaryKey.includes(column))
    for (const here of reverse(table, junction).filter(({ key }) => inKey(key))) {
      for (const there of forward(junction, target).filter(({ key }) => inKey(key) && key !== here.key)) {
        candidates.push({
          key: there.key,
          // From a table to itself, each key of the junction leads there and back: the hint is the one to the embedded row.
          hints: [junction.name, ...namesOf(there.key), ...table === target ? [] : namesOf(here.key)],
          relation: { table: target, many: true, on: here.relation.on, junction: { table: junction, on: there.relation.on } }
        })
      }
    }
  }
  return candidates
}

/** Whether at most one row can have given values in these columns (within one tenant, if the table has tenants). */
function isUnique (table: Table, columns: readonly string[]): boolean {
  const significant = (key: readonly string[]): string[] => table.tenantScoped ? key.filter((column) => column !== tenantColumn) : [...key]
  const wanted = significant(columns)
  return [table.primaryKey, ...table.uniqueKeys].some((key) => {
    const held = significant(key)
    return held.length > 0 && held.length === wanted.length && held.every((column) => wanted.includes(column))
  })
}

function namesOf (key: ForeignKey): string[] {
  const column = ownColumn(key)
  return column === undefined ? [key.name] : [key.name, column]
}

/** The column of a foreign key besides the tenant's. */
function ownColumn ({ columns }: ForeignKey): string | undefined {
  const own = columns.filter((column) => column !== tenantColumn)
  return own.length === 1 ? own[0] : undefined
}

function describe ({ key, hints, relation }: Candidate, candidates: readonly Candidate[]): string {
  const hint = hints.find((name) => candidates.filter((each) => each.hints.includes(name)).length === 1) ?? key.name
  return `\`${relation.table.name}!${hint}\` (${relation.many ? 'many' : 'one'})`
}
