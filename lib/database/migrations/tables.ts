/** The SQL that brings the application's tables to their declared form. Nothing is dropped or narrowed. */
import { hash } from 'node:crypto'
import { sameColumns, type Table } from '../catalogue.js'
import { hasKeyIndex, type WantedColumn, type WantedTable } from '../declared-tables.js'
import { identifier, identifiers, literal, qualified } from '../sql.js'
import { addFilled, fill, isFilled } from './fill.js'
import type { TableState } from './inspection.js'
import {
  indexPartitions, isUnfinished, type PartitionTree, referencePartitions, refusedIndex, refusedTree
} from './partitions.js'
import { buildIndex, change, type MigrationStep, refer, scan } from './steps.js'

interface TableContext {
  readonly schema: string
  readonly existing: Table | undefined
  readonly state: TableState | undefined
  /** The table has rows: a column without a default cannot be made NOT NULL. */
  readonly hasRows: boolean
  /** Requests read and write existing tables meanwhile. */
  readonly concurrent: boolean
}

interface TableDifference {
  /** Makes the table, with its keys and indexes. */
  readonly made: readonly string[]
  /** Adds columns, keys and indexes to the existing table. */
  readonly changes: readonly MigrationStep[]
  /** Adds references. Run when all tables exist, and have their keys. */
  readonly references: readonly Reference[]
  /** Declarations that the migration does not apply. */
  readonly warnings: readonly string[]
}

/** The steps that add a reference. */
interface Reference {
  readonly to: string
  readonly steps: readonly MigrationStep[]
}

export function difference (wanted: WantedTable, context: TableContext): TableDifference {
  const { existing, schema } = context
  const name = qualified(schema, wanted.name)
  if (existing === undefined) {
    return {
      made: [
        createTable(name, wanted),
        ...wanted.indexes.filter((columns) => !hasKeyIndex([wanted.primaryKey], columns)).map((columns) => createIndex(name, columns))
      ],
      changes: [],
      references: wanted.foreignKeys.map((key) => {
        const to = key.referencedTable
        return { to, steps: [refer(name, qualified(schema, to), addReference(name, schema, key))] }
      }),
      warnings: []
    }
  }
  return addTo(name, existing, wanted, context)
}

/** Whether the rows of the existing table matter: it lacks a column without a value for them, or is partitioned. */
export function needsRows (wanted: WantedTable, existing: Table): boolean {
  return existing.partitioned === true ||
    [...wanted.columns.values()].some((column) => column.notNull && !column.hasDefault && !existing.columns.has(column.name))
}

function createTable (name: string, { columns, primaryKey, uniqueKeys }: WantedTable): string {
  const lines = [...columns.values()].map((column) => columnSql(column, column.notNull))
  if (primaryKey.length > 0) lines.push(`primary key (${identifiers(primaryKey)})`)
  for (const key of uniqueKeys.filter((key) => !sameColumns(key, primaryKey))) lines.push(`unique (${identifiers(key)})`)
  return `create table ${name} (\n  ${lines.join(',\n  ')}\n)`
}

/** An existing table and its declaration. */
interface Target extends TableContext {
  /** The qualified name. */
  readonly name: string
  readonly existing: Table
  readonly wanted: WantedTable
  /**
   * Set if partitions get their own indexes and references: PostgreSQL builds and checks those of a whole partitioned table only while it
   * blocks writes.
   */
  readonly tree: PartitionTree | null
  /** Statements may block writes of the table while they run. */
  readonly mayBlock: boolean
}

/** Steps for the missing columns, indexes or references. */
interface Addition<Step> {
  readonly steps: readonly Step[]
  readonly warnings: readonly string[]
}

function addTo (name: string, existing: Table, wanted: WantedTable, context: TableContext): TableDifference {
  const { state, hasRows, concurrent } = context
  if (existing.view) return { made: [], changes: [], references: [], warnings: [`${wanted.name} is a view: its declaration has no effect`] }
  const target: Target = {
    ...context,
    name,
    existing,
    wanted,
    tree: concurrent && hasRows ? state?.partitions ?? null : null,
    mayBlock: !concurrent || existing.partitioned === true
  }
  const columns = addColumns(target)
  const indexes = addIndexes(target)
  const references = addReferences(target)
  return {
    made: [],
    changes: [...columns.steps, ...indexes.steps],
    references: references.steps,
    warnings: [
      ...columns.warnings,
      ...hasWantedKey(existing, wanted) ? [] : [primaryKeyWarning(existing, wanted)],
      ...indexes.warnings,
      ...references.warnings
    ]
  }
}

function addColumns ({ name, existing, wanted, state, hasRows, concurrent }: Target): Addition<MigrationStep> {
  const steps: MigrationStep[] = []
  const warnings: string[] = []
  for (const column of wanted.columns.values()) {
    const found = existing.columns.get(column.name)
    if (found !== undefined) {
      if (state?.filling.includes(column.name) === true) steps.push(...fill(name, column))
      else warnings.push(...compare(wanted.name, column, found))
      continue
    }
    const fillable = !column.notNull || column.hasDefault || !hasRows
    if (!fillable) {
      warnings.push(
        `${wanted.name}.${column.name} is declared notNull, but ${wanted.name} has rows: the column is added as nullable; fill it, then set it NOT NULL`
      )
    }
    if (concurrent && isFilled(column)) steps.push(...addFilled(name, column, defaultSql(column.default, column.type)))
    else steps.push(...change(name, [`alter table ${name} add column ${columnSql(column, column.notNull && fillable)}`]))
  }
  return { steps, warnings }
}

/** Adds the unique keys and the indexes. */
function addIndexes (target: Target): Addition<MigrationStep> {
  const { name, existing, wanted, state, tree } = target
  const additions: Addition<MigrationStep>[] = []
  for (const key of wanted.uniqueKeys) {
    const index = indexName(wanted.name, key, 'key')
    const exists = [existing.primaryKey, ...existing.uniqueKeys].some((found) => sameColumns(found, key))
    if (state?.looseKeys.includes(index) === true) additions.push({ steps: attachKey(name, identifier(index)), warnings: [] })
    else if (!exists || (tree !== null && isUnfinished(tree, index))) additions.push(addIndex(target, key, 'key'))
  }
  for (const columns of wanted.indexes) {
    const exists = state?.indexes.some((index) => columns.every((column, place) => index[place] === column)) === true
    if (!exists) additions.push(addIndex(target, columns, 'idx'))
  }
  return { steps: additions.flatMap(({ steps }) => steps), warnings: additions.flatMap(({ warnings }) => warnings) }
}

function addIndex (
  { name, schema, wanted, tree, mayBlock }: Target,
  columns: readonly string[],
  kind: 'key' | 'idx'
): Addition<MigrationStep> {
  const list = `(${identifiers(columns)})`
  const unique = kind === 'key'
  if (tree !== null) {
    const index = { unique, columns, nameOf: (table: string) => indexName(table, columns, kind) }
    const refused = refusedIndex(tree, index)
    return refused === null
      ? { steps: indexPartitions(tree, index), warnings: [] }
      : { steps: [], warnings: [partitionedWarning(wanted.name, `the ${unique ? 'unique key' : 'index'} ${list}`, refused)] }
  }
  if (mayBlock) {
    const statement = unique ? `alter table ${name} add unique ${list}` : createIndex(name, columns)
    return { steps: change(name, [statement]), warnings: [] }
  }
  const own = identifier(indexName(wanted.name, columns, kind))
  const built = buildIndex({ schema: identifier(schema), table: name, name: own, unique, rest: list })
  return { steps: [built, ...unique ? attachKey(name, own) : []], warnings: [] }
}

/** Makes a unique key of a unique index. */
function attachKey (name: string, key: string): MigrationStep[] {
  return change(name, [`alter table ${name} add constraint ${key} unique using index ${key}`])
}

function addReferences ({ name, schema, existing, wanted, state, tree, mayBlock }: Target): Addition<Reference> {
  const steps: Reference[] = []
  const warnings: string[] = []
  for (const key of wanted.foreignKeys) {
    const add = addReference(name, schema, key)
    const to = key.referencedTable
    const referenced = qualified(schema, to)
    const validate = scan(name, `alter table ${name} validate constraint ${identifier(key.name)}`)
    if (state?.unvalidated.includes(key.name) === true) steps.push({ to, steps: [validate] })
    // An existing reference without the tenant is left alone.
    else if (
      existing.foreignKeys.some((found) => found.referencedTable === to && found.columns.every((column) => key.columns.includes(column)))
    ) continue
    else if (tree !== null) {
      const refused = refusedTree(tree.tables)
      if (refused === null) steps.push({ to, steps: referencePartitions(tree, key.name, referenced, referenceSql(schema, key)) })
      else warnings.push(partitionedWarning(wanted.name, `the reference ${key.name}`, refused))
    } else steps.push({ to, steps: mayBlock ? [refer(name, referenced, add)] : [refer(name, referenced, `${add} not valid`), validate] })
  }
  return { steps, warnings }
}

function partitionedWarning (table: string, missing: string, reason: string): string {
  return `${table} is partitioned, has rows and lacks ${missing}: ${reason}`
}

const nameBytes = 63 // of an identifier in PostgreSQL

/** Identifies the columns by a hash too: two names of columns may read alike, and PostgreSQL cuts long names. */
function indexName (table: string, columns: readonly string[], kind: 'key' | 'idx'): string {
  const end = `_${hash('sha256', JSON.stringify([table, columns])).slice(0, 8)}_${kind}`
  return `${Buffer.from([table, ...columns].join('_')).subarray(0, nameBytes - end.length).toString('utf8').replace(/\uFFFD+$/, '')}${end}`
}

function compare (table: string, wanted: WantedColumn, found: { type: string, notNull: boolean }): string[] {
  const column = `${table}.${wanted.name}`
  if (found.type !== wanted.type) {
    return [`${column} is ${found.type} in the database, but declared as ${wanted.type}: change one of the two`]
  }
  if (wanted.notNull && !found.notNull) {
    return [`${column} is declared notNull, but nullable in the database: set it NOT NULL when no row has null`]
  }
  return []
}

/** Tables that were created without the tenant in their key keep it: its values are then common to all tenants. */
function hasWantedKey ({ primaryKey }: Table, { primaryKey: wanted, tenantScoped }: WantedTable): boolean {
  return sameColumns(primaryKey, wanted) || (tenantScoped && sameColumns(primaryKey, wanted.filter((column) => column !== 'tenant_id')))
}

function primaryKeyWarning (existing: Table, wanted: WantedTable): string {
  const words = (key: readonly string[]) => key.length === 0 ? 'none' : `(${key.join(', ')})`
  return `the primary key of ${wanted.name} is ${words(existing.primaryKey)} in the database, but declared as ${words(wanted.primaryKey)}: change one of the two`
}

function columnSql ({ name, type, dimensions = 1, default: value, hasDefault }: WantedColumn, notNull: boolean): string {
  return `${identifier(name)} ${type}${'[]'.repeat(dimensions - 1)}${hasDefault ? ` default ${defaultSql(value, type)}` : ''}${notNull ? ' not null' : ''}`
}

function defaultSql (value: unknown, type: string): string {
  if (value === 'uuid()') return type === 'uuid' ? 'gen_random_uuid()' : `gen_random_uuid()::${type}`
  if (value === 'now()') return type.startsWith('timestamp') ? 'now()' : `now()::${type}`
  if (type === 'json' || type === 'jsonb') return `${literal(JSON.stringify(value))}::${type}`
  if (Array.isArray(value)) return `${listSql(value, /^jsonb?\[/.test(type))}::${type}`
  if (typeof value === 'number' || typeof value === 'boolean') return `${literal(String(value))}::${type}`
  return `${literal(typeof value === 'string' ? value : JSON.stringify(value))}::${type}`
}

/** Nested lists are dimensions, but for JSON, whose items are any values. */
function listSql (items: readonly unknown[], isJson: boolean): string {
  const texts = items.map((item) => {
    if (isJson) return literal(JSON.stringify(item))
    if (Array.isArray(item)) return listSql(item, isJson)
    return item === null ? 'null' : literal(String(item))
  })
  return `array[${texts.join(', ')}]`
}

/** PostgreSQL chooses a free name. */
function createIndex (name: string, columns: readonly string[]): string {
  return `create index on ${name} (${identifiers(columns)})`
}

function addReference (name: string, schema: string, key: WantedTable['foreignKeys'][number]): string {
  return `alter table ${name} add constraint ${identifier(key.name)} ${referenceSql(schema, key)}`
}

function referenceSql (schema: string, { columns, referencedTable, referencedColumns }: WantedTable['foreignKeys'][number]): string {
  return `foreign key (${identifiers(columns)}) references ${qualified(schema, referencedTable)} (${identifiers(referencedColumns)})`
}
