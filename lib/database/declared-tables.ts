/** The tables that a document declares (DESIGN 3, "Declared tables"). */
import type { Catalogue, Column, ForeignKey, Table } from './catalogue.js'

/** Types of columns: PostgreSQL's name for each by its names in a document. */
export const columnTypes = {
  text: 'text',
  varchar: 'character varying',
  integer: 'integer',
  int: 'integer',
  smallint: 'smallint',
  bigint: 'bigint',
  numeric: 'numeric',
  real: 'real',
  'double precision': 'double precision',
  boolean: 'boolean',
  uuid: 'uuid',
  timestamptz: 'timestamp with time zone',
  timestamp: 'timestamp without time zone',
  date: 'date',
  time: 'time without time zone',
  interval: 'interval',
  json: 'json',
  jsonb: 'jsonb',
  bytea: 'bytea',
  inet: 'inet',
  'text[]': 'text[]',
  'integer[]': 'integer[]',
  'bigint[]': 'bigint[]',
  'numeric[]': 'numeric[]',
  'uuid[]': 'uuid[]',
  'boolean[]': 'boolean[]'
} as const satisfies Record<string, string>

export type ColumnType = keyof typeof columnTypes

export interface DeclaredColumn {
  readonly type: ColumnType
  /** Part of the primary key. Default: false. */
  readonly primaryKey?: boolean | undefined
  readonly notNull?: boolean | undefined
  /** `uuid()`, `now()`, or a literal of the column's type. */
  readonly default?: unknown
  /** `table.column` that the value must be found in. */
  readonly references?: string | undefined
  readonly unique?: boolean | undefined
}

export interface DeclaredTable {
  readonly columns: Readonly<Record<string, DeclaredColumn>>
  /** Adds `tenant_id text not null`, its index and its policy. */
  readonly tenantScoped?: boolean | undefined
  /** Adds `deleted boolean not null default false` and `deleted_at timestamptz`. */
  readonly softDelete?: boolean | undefined
  readonly indexes?: readonly (readonly string[])[] | undefined
  readonly unique?: readonly (readonly string[])[] | undefined
}

/** By name. */
export type DeclaredTables = Readonly<Record<string, DeclaredTable>>

/** The columns of a table as declared, with those that `tenantScoped` and `softDelete` add. */
export function declaredColumns ({ columns, tenantScoped, softDelete }: DeclaredTable): Record<string, DeclaredColumn> {
  return {
    ...columns,
    ...tenantScoped === true && { tenant_id: columns.tenant_id ?? { type: 'text', notNull: true } },
    ...softDelete === true && { deleted: { type: 'boolean', notNull: true, default: false }, deleted_at: { type: 'timestamptz' } }
  }
}

/** The catalogue as it will be when the migration is done: routes compile although the database still lacks something. */
export function withDeclared (found: Catalogue, declared: DeclaredTables): Catalogue {
  const tables = new Map(found.tables)
  for (const [name, table] of Object.entries(declared)) {
    const existing = found.tables.get(name)
    tables.set(name, existing === undefined ? declaredTable(name, table) : completed(existing, table))
  }
  return Object.freeze({ schema: found.schema, tables })
}

function declaredTable (name: string, table: DeclaredTable): Table {
  const columns = declaredColumns(table)
  const entries = Object.entries(columns)
  return Object.freeze({
    name,
    columns: new Map(entries.map(([column, definition]) => [column, declaredColumn(column, definition)])),
    primaryKey: entries.filter(([, { primaryKey }]) => primaryKey).map(([column]) => column),
    uniqueKeys: declaredUniques(table),
    foreignKeys: entries.flatMap(([column, { references }]) => references === undefined ? [] : [foreignKeyOf(name, column, references)]),
    tenantScoped: 'tenant_id' in columns,
    softDelete: columns.deleted?.type === 'boolean' && (columns.deleted_at?.type ?? '').startsWith('timestamp'),
    view: false
  })
}

/** An existing table with the columns and references that it lacks. */
function completed (existing: Table, table: DeclaredTable): Table {
  const wanted = declaredTable(existing.name, table)
  const columns = new Map([...wanted.columns, ...existing.columns])
  if (existing.view || columns.size === existing.columns.size) return existing
  return Object.freeze({
    ...existing,
    columns,
    foreignKeys: [...existing.foreignKeys, ...wanted.foreignKeys.filter(({ columns: [column] }) => column !== undefined && !existing.columns.has(column))],
    tenantScoped: existing.tenantScoped || wanted.tenantScoped,
    softDelete: existing.softDelete || wanted.softDelete
  })
}

function declaredColumn (name: string, definition: DeclaredColumn): Column {
  return Object.freeze({
    name,
    type: columnTypes[definition.type],
    notNull: definition.notNull === true || definition.primaryKey === true,
    hasDefault: definition.default !== undefined,
    generated: false
  })
}

/** Unique keys of a table, those of single columns first. */
export function declaredUniques ({ columns, unique = [] }: DeclaredTable): string[][] {
  return [...Object.entries(columns).filter(([, definition]) => definition.unique).map(([column]) => [column]), ...unique.map((key) => [...key])]
}

export function foreignKeyOf (table: string, column: string, references: string): ForeignKey {
  const dot = references.lastIndexOf('.')
  return { name: `${table}_${column}_fkey`, columns: [column], referencedTable: references.slice(0, dot), referencedColumns: [references.slice(dot + 1)] }
}
