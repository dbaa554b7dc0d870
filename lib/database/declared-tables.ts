/** The tables that a document declares or names, in the form that the database should have. */
import { hash } from 'node:crypto'
import type { ColumnDefinition, TableDefinition } from '../schema/table.js'
import { type Catalogue, type Column, type ForeignKey, isSoftDelete, sameColumns, type Table, tenantColumn, typeNames } from './catalogue.js'

/** By name. */
export type DeclaredTables = Readonly<Record<string, TableDefinition>>

/** A declared table in its target form. */
export interface WantedTable extends Table {
  readonly columns: ReadonlyMap<string, WantedColumn>
  readonly indexes: readonly (readonly string[])[]
}

export interface WantedColumn extends Column {
  /** As declared: `uuid()`, `now()` or a literal; undefined without one. */
  readonly default: unknown
}

/** The columns by which rows are marked as deleted. */
export const softDeleteColumns = {
  deleted: { type: 'boolean', notNull: true, default: false },
  deleted_at: { type: 'timestamptz' }
} as const satisfies Record<string, ColumnDefinition>

/**
 * Derives the target form: the columns of `tenantScoped` and `softDelete`, and the separation of tenants. The primary key and unique
 * columns of a tenant-scoped table are unique within a tenant, and a reference between two such tables includes the tenant. Otherwise one
 * tenant could detect, occupy or block ids of another. The key of a table that a table without tenants refers to is unique over all
 * tenants, since such a reference names no tenant.
 */
export function wantedTables (declared: DeclaredTables): ReadonlyMap<string, WantedTable> {
  const wanted = new Map(Object.entries(declared).map(([name, definition]) => [name, wantedTable(name, definition, declared)]))
  for (const { foreignKeys } of wanted.values()) {
    for (const { referencedTable, referencedColumns } of foreignKeys) {
      const target = wanted.get(referencedTable)
      // Also for the primary key: an existing one in the database may differ.
      if (target?.tenantScoped !== true || target.uniqueKeys.some((key) => sameColumns(key, referencedColumns))) continue
      wanted.set(referencedTable, { ...target, uniqueKeys: [...target.uniqueKeys, referencedColumns] })
    }
  }
  for (const [name, table] of wanted) {
    wanted.set(name, {
      ...table,
      indexes: table.indexes.filter((index, place) =>
        !hasKeyIndex(table.uniqueKeys, index) && !table.indexes.slice(0, place).some((other) => begins(other, index))
      )
    })
  }
  return wanted
}

/** The catalogue after the migration: routes compile before the database has all of it. */
export function withDeclared (found: Catalogue, wanted: ReadonlyMap<string, WantedTable>): Catalogue {
  const tables = new Map(found.tables)
  for (const [name, table] of wanted) {
    const existing = found.tables.get(name)
    tables.set(name, existing === undefined ? made(table) : completed(existing, table))
  }
  return Object.freeze({ ...found, tables })
}

/** A key has its own index, which also serves its leading columns. */
export function hasKeyIndex (keys: readonly (readonly string[])[], columns: readonly string[]): boolean {
  return keys.some((key) => begins(key, columns))
}

function begins (key: readonly string[], columns: readonly string[]): boolean {
  return columns.every((column, place) => key[place] === column)
}

function wantedTable (name: string, definition: TableDefinition, declared: DeclaredTables): WantedTable {
  const definitions = columnDefinitions(definition)
  const columns = new Map(Object.entries(definitions).map(([column, one]) => [column, wantedColumn(column, one)]))
  const tenantScoped = isTenantScoped(definition)
  const within = (key: readonly string[]) => tenantScoped && !key.includes(tenantColumn) ? [tenantColumn, ...key] : [...key]
  const ownKey = Object.keys(definitions).filter((column) => definitions[column]?.primaryKey)
  const primaryKey = ownKey.length === 0 ? ownKey : within(ownKey)
  const uniqueKeys = [
    ...Object.keys(definitions).filter((column) => definitions[column]?.unique).map((column) => [column]),
    ...definition.unique ?? []
  ]
    .map(within).filter((key, place, keys) => keys.findIndex((other) => sameColumns(other, key)) === place)
  // A tenant's list has the order of the primary key.
  const tenantIndex = [tenantColumn, ...primaryKey.filter((column) => column !== tenantColumn)]
  return {
    name,
    columns,
    primaryKey,
    uniqueKeys,
    foreignKeys: Object.entries(definitions).flatMap(([column, { references }]) =>
      references === undefined ? [] : [foreignKey(name, column, references, tenantScoped, declared)]
    ),
    indexes: [...tenantScoped ? [tenantIndex] : [], ...definition.indexes ?? []],
    tenantScoped,
    softDelete: isSoftDelete(columns),
    view: false
  }
}

/** The columns of a table, with those that `tenantScoped` and `softDelete` add. */
export function columnDefinitions ({ columns, tenantScoped, softDelete }: TableDefinition): Record<string, ColumnDefinition> {
  const definitions: Record<string, ColumnDefinition> = { ...columns }
  if (tenantScoped === true) definitions.tenant_id ??= { type: 'text', notNull: true }
  if (softDelete === true) {
    definitions.deleted ??= softDeleteColumns.deleted
    definitions.deleted_at ??= softDeleteColumns.deleted_at
  }
  return definitions
}

export function isTenantScoped ({ columns, tenantScoped }: TableDefinition): boolean {
  return tenantScoped === true || Object.hasOwn(columns, tenantColumn)
}

function wantedColumn (name: string, definition: ColumnDefinition): WantedColumn {
  const dimensions = definition.type.endsWith('[]') ? dimensionsOf(definition.default) : 0
  return {
    name,
    type: typeNames[definition.type],
    ...dimensions > 1 && { dimensions },
    notNull: definition.notNull === true || definition.primaryKey === true,
    hasDefault: definition.default !== undefined && definition.default !== null,
    default: definition.default,
    generated: false
  }
}

/** The dimensions of a default: of a list, or of PostgreSQL's text of an array. */
function dimensionsOf (value: unknown): number {
  if (Array.isArray(value)) return 1 + Math.max(0, ...value.map((item) => Array.isArray(item) ? dimensionsOf(item) : 0))
  return typeof value === 'string' ? /^(?:\{\s*)*/.exec(value)![0].replace(/\s/g, '').length : 0
}

function foreignKey (table: string, column: string, references: string, tenantScoped: boolean, declared: DeclaredTables): ForeignKey {
  const [referencedTable = '', referencedColumn = ''] = references.split('.')
  const target = Object.hasOwn(declared, referencedTable) ? declared[referencedTable] : undefined
  const shared = tenantScoped && target !== undefined && isTenantScoped(target) && column !== tenantColumn &&
    referencedColumn !== tenantColumn
  return {
    name: keyName(`${table}_${column}`),
    columns: shared ? [tenantColumn, column] : [column],
    referencedTable,
    referencedColumns: shared ? [tenantColumn, referencedColumn] : [referencedColumn]
  }
}

/** The name for `select`. PostgreSQL keeps 63 bytes of a name, so the hash of a longer one keeps two references of a table apart. */
function keyName (text: string): string {
  if (text.length <= 58) return `${text}_fkey`
  return `${text.slice(0, 49)}_${hash('sha256', text).slice(0, 8)}_fkey`
}

/** A table as the database will report it. */
function made (wanted: WantedTable): Table {
  return Object.freeze({ ...wanted, uniqueKeys: wanted.uniqueKeys.filter((key) => !sameColumns(key, wanted.primaryKey)) })
}

/** An existing table with its missing columns and references. */
function completed (existing: Table, wanted: WantedTable): Table {
  const columns = new Map([...wanted.columns, ...existing.columns])
  if (existing.view || columns.size === existing.columns.size) return existing
  return Object.freeze({
    ...existing,
    columns,
    foreignKeys: [
      ...existing.foreignKeys,
      ...wanted.foreignKeys.filter((key) => key.columns.some((column) => !existing.columns.has(column)))
    ],
    tenantScoped: existing.tenantScoped || wanted.tenantScoped,
    softDelete: existing.softDelete || wanted.softDelete
  })
}

export interface RoleTables {
  readonly roles: string
  readonly permissions: string
  readonly userRoles: string
}

export const defaultRoleTables: RoleTables = Object.freeze({ roles: 'roles', permissions: 'permissions', userRoles: 'user_roles' })

/** The permissions of roles, with a fixed name. */
export const rolePermissions = 'role_permissions'
