/** The SQL that brings the application's tables to what the document declares. Nothing is dropped and nothing is narrowed. */
import type { Table } from '../catalogue.js'
import type { WantedColumn, WantedTable } from '../declared-tables.js'
import { sameColumns } from '../catalogue.js'
import { hasKeyIndex } from '../declared-tables.js'
import { identifier, identifiers, literal } from '../sql.js'
import type { TableState } from './inspection.js'

export interface TableContext {
  readonly schema: string
  readonly existing: Table | undefined
  readonly state: TableState | undefined
  /** The table has rows: a column without a default cannot be made NOT NULL. */
  readonly hasRows: boolean
}

export interface TableDifference {
  /** Makes the table or adds columns, keys and indexes. */
  readonly statements: readonly string[]
  /** Run when all tables are there. */
  readonly references: readonly string[]
  /** What the declaration says and the migration leaves as it is. */
  readonly warnings: readonly string[]
}

/** What the table lacks. */
export function difference (wanted: WantedTable, context: TableContext): TableDifference {
  const { existing, schema } = context
  const name = `${identifier(schema)}.${identifier(wanted.name)}`
  if (existing === undefined) {
    return {
      statements: [createTable(name, wanted), ...wanted.indexes.filter((columns) => !hasKeyIndex([wanted.primaryKey], columns)).map((columns) => createIndex(name, columns))],
      references: wanted.foreignKeys.map((key) => addReference(name, schema, key)),
      warnings: []
    }
  }
  return addTo(name, existing, wanted, context)
}

/** Columns that the existing table lacks and that have no value for the rows which are there. */
export function needsRows (wanted: WantedTable, existing: Table): boolean {
  return [...wanted.columns.values()].some((column) => column.notNull && !column.hasDefault && !existing.columns.has(column.name))
}

function createTable (name: string, { columns, primaryKey, uniqueKeys }: WantedTable): string {
  const lines = [...columns.values()].map((column) => columnSql(column, column.notNull))
  if (primaryKey.length > 0) lines.push(`primary key (${identifiers(primaryKey)})`)
  for (const key of uniqueKeys.filter((key) => !sameColumns(key, primaryKey))) lines.push(`unique (${identifiers(key)})`)
  return `create table ${name} (\n  ${lines.join(',\n  ')}\n)`
}

function addTo (name: string, existing: Table, wanted: WantedTable, { schema, state, hasRows }: TableContext): TableDifference {
  if (existing.view) return { statements: [], references: [], warnings: [`${wanted.name} is a view: its declaration has no effect`] }
  const statements: string[] = []
  const warnings: string[] = []
  for (const column of wanted.columns.values()) {
    const found = existing.columns.get(column.name)
    if (found !== undefined) {
      warnings.push(...compare(wanted.name, column, found))
      continue
    }
    const fillable = !column.notNull || column.hasDefault || !hasRows
    if (!fillable) warnings.push(`${wanted.name}.${column.name} is declared notNull and ${wanted.name} has rows: it is added without, give it values and set it NOT NULL`)
    statements.push(`alter table ${name} add column ${columnSql(column, column.notNull && fillable)}`)
  }
  if (!hasWantedKey(existing, wanted)) warnings.push(primaryKeyWarning(existing, wanted))
  for (const key of wanted.uniqueKeys) {
    if ([existing.primaryKey, ...existing.uniqueKeys].some((found) => sameColumns(found, key))) continue
    statements.push(`alter table ${name} add unique (${identifiers(key)})`)
  }
  for (const columns of wanted.indexes) {
    const covered = state?.indexes.some((index) => columns.every((column, place) => index[place] === column)) === true
    if (!covered) statements.push(createIndex(name, columns))
  }
  // A reference without the tenant that was there before is left alone.
  const references = wanted.foreignKeys
    .filter((key) => !existing.foreignKeys.some((found) => found.referencedTable === key.referencedTable && found.columns.every((column) => key.columns.includes(column))))
    .map((key) => addReference(name, schema, key))
  return { statements, references, warnings }
}

function compare (table: string, wanted: WantedColumn, found: { type: string, notNull: boolean }): string[] {
  const column = `${table}.${wanted.name}`
  if (found.type !== wanted.type) return [`${column} is ${found.type} in the database and declared as ${wanted.type}: it is left as it is, change one of the two`]
  if (wanted.notNull && !found.notNull) return [`${column} is declared notNull and may be null in the database: it is left as it is, set it NOT NULL when its rows allow`]
  return []
}

/** Tables that were made without the tenant in their key keep it: its values are then common to all tenants. */
function hasWantedKey ({ primaryKey }: Table, { primaryKey: wanted, tenantScoped }: WantedTable): boolean {
  return sameColumns(primaryKey, wanted) || (tenantScoped && sameColumns(primaryKey, wanted.filter((column) => column !== 'tenant_id')))
}

function primaryKeyWarning (existing: Table, wanted: WantedTable): string {
  const words = (key: readonly string[]) => key.length === 0 ? 'none' : `(${key.join(', ')})`
  return `the primary key of ${wanted.name} is ${words(existing.primaryKey)} in the database and declared as ${words(wanted.primaryKey)}: it is left as it is`
}

function columnSql ({ name, type, default: value, hasDefault }: WantedColumn, notNull: boolean): string {
  return `${identifier(name)} ${type}${hasDefault ? ` default ${defaultSql(value, type)}` : ''}${notNull ? ' not null' : ''}`
}

function defaultSql (value: unknown, type: string): string {
  if (value === 'uuid()') return type === 'uuid' ? 'gen_random_uuid()' : `gen_random_uuid()::${type}`
  if (value === 'now()') return type.startsWith('timestamp') ? 'now()' : `now()::${type}`
  if (type === 'json' || type === 'jsonb') return `${literal(JSON.stringify(value))}::${type}`
  if (Array.isArray(value)) return `array[${value.map((item) => literal(String(item))).join(', ')}]::${type}`
  if (typeof value === 'number' || typeof value === 'boolean') return `${literal(String(value))}::${type}`
  return `${literal(typeof value === 'string' ? value : JSON.stringify(value))}::${type}`
}

/** PostgreSQL finds a name that is free. */
function createIndex (name: string, columns: readonly string[]): string {
  return `create index on ${name} (${identifiers(columns)})`
}

function addReference (name: string, schema: string, { name: key, columns, referencedTable, referencedColumns }: WantedTable['foreignKeys'][number]): string {
  return `alter table ${name} add constraint ${identifier(key)} foreign key (${identifiers(columns)}) references ${identifier(schema)}.${identifier(referencedTable)} (${identifiers(referencedColumns)})`
}
