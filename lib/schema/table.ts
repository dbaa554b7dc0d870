/** A declared application table. */
import { type Static, Type } from 'typebox'
import { ClosedObject, Optional } from './annotations.js'

const identifier = '^[A-Za-z_][A-Za-z0-9_]{0,62}$'
const identifierText = 'a name of 1 to 63 letters, digits and underscores that does not start with a digit'

export const columnTypeNames = [
  'text', 'varchar', 'integer', 'int', 'smallint', 'bigint', 'numeric', 'real', 'double precision', 'boolean', 'uuid',
  'timestamptz', 'timestamp', 'date', 'time', 'interval', 'json', 'jsonb', 'bytea', 'inet', 'text[]', 'integer[]',
  'bigint[]', 'numeric[]', 'uuid[]', 'boolean[]'
] as const

const ColumnName = Type.String({ pattern: identifier, expected: identifierText })

export const ColumnDefinition = ClosedObject({
  type: Type.Enum(columnTypeNames, { description: 'The PostgreSQL type.' }),
  primaryKey: Optional.Boolean('The column is part of the primary key, together with other columns that set this. Default: false.'),
  notNull: Optional.Boolean('The column does not accept null. Default: false, or true in the primary key.'),
  default: Optional.Unknown("The default value: a literal of the column's type, `uuid()` or `now()`."),
  references: Optional.String(
    'The referenced column, as `table.column`: a foreign key.',
    { pattern: '^[A-Za-z_][A-Za-z0-9_]{0,62}\\.[A-Za-z_][A-Za-z0-9_]{0,62}$', expected: '`table.column`' }
  ),
  unique: Optional.Boolean('Values are unique; in a table of tenants, unique within a tenant. Default: false.')
}, { description: 'A column.' })
export type ColumnDefinition = Static<typeof ColumnDefinition>

export const TableDefinition = ClosedObject({
  columns: Type.Record(Type.String({ pattern: identifier }), ColumnDefinition, {
    minProperties: 1,
    additionalProperties: false,
    expected: identifierText,
    description: 'The columns by name.'
  }),
  tenantScoped: Optional.Boolean(
    'Each row belongs to a tenant. Adds `tenant_id`, its index and its policy, and puts `tenant_id` first in the primary key. Every query is limited to the tenant of its request. Default: true if there is a column `tenant_id`.'
  ),
  softDelete: Optional.Boolean('Rows can be marked as deleted. Adds `deleted` and `deleted_at`. Default: false.'),
  indexes: Optional.Array(
    'The indexes, each as a list of columns. In a table of tenants put `tenant_id` first, since every query has it as a condition.',
    Type.Array(ColumnName, { minItems: 1 })
  ),
  unique: Optional.Array(
    'Sets of columns with unique values; in a table of tenants, unique within a tenant.',
    Type.Array(ColumnName, { minItems: 1 })
  )
}, { description: 'A table.' })
export type TableDefinition = Static<typeof TableDefinition>

export const Tables = Type.Record(Type.String({ pattern: identifier }), TableDefinition, {
  additionalProperties: false,
  expected: identifierText,
  default: {},
  description:
    'The tables of the application. The server creates missing tables; it never drops or narrows anything. Existing tables need no declaration.'
})
export type Tables = Static<typeof Tables>
