/** A declared application table. */
import { Type, type Static } from 'typebox'
import { Section } from './annotations.js'

const identifier = '^[A-Za-z_][A-Za-z0-9_]{0,62}$'
const identifierText = 'a name of 1 to 63 letters, digits and underscores that starts with no digit'

export const columnTypeNames = [
  'text',
  'varchar',
  'integer',
  'int',
  'smallint',
  'bigint',
  'numeric',
  'real',
  'double precision',
  'boolean',
  'uuid',
  'timestamptz',
  'timestamp',
  'date',
  'time',
  'interval',
  'json',
  'jsonb',
  'bytea',
  'inet',
  'text[]',
  'integer[]',
  'bigint[]',
  'numeric[]',
  'uuid[]',
  'boolean[]'
] as const

const ColumnName = Type.String({ pattern: identifier, expected: identifierText })

export const ColumnDefinition = Section({
  type: Type.Enum(columnTypeNames, { description: "The type, by PostgreSQL's name." }),
  primaryKey: Type.Optional(Type.Boolean({ description: 'Part of the primary key, which is the columns that say so. Default: false.' })),
  notNull: Type.Optional(Type.Boolean({ description: 'null is refused. Default: false, true in the primary key.' })),
  default: Type.Optional(
    Type.Unknown({ description: "The value of a row that names none: a literal of the column's type, `uuid()` or `now()`." })
  ),
  references: Type.Optional(Type.String({
    pattern: '^[A-Za-z_][A-Za-z0-9_]{0,62}\\.[A-Za-z_][A-Za-z0-9_]{0,62}$',
    expected: '`table.column`',
    description: 'The column that holds the value, as `table.column`: a foreign key.'
  })),
  unique: Type.Optional(
    Type.Boolean({ description: 'No two rows have the same value; in a table of tenants, no two of one tenant. Default: false.' })
  )
}, { description: 'A column.' })
export type ColumnDefinition = Static<typeof ColumnDefinition>

export const TableDefinition = Section({
  columns: Type.Record(Type.String({ pattern: identifier }), ColumnDefinition, {
    minProperties: 1,
    additionalProperties: false,
    expected: identifierText,
    description: 'The columns, by name.'
  }),
  tenantScoped: Type.Optional(
    Type.Boolean({
      description:
        'Each row belongs to a tenant: adds `tenant_id`, its index and its policy, and makes the primary key one of each tenant (`tenant_id` first); every query keeps to the tenant of its request. Default: whether there is a column `tenant_id`.'
    })
  ),
  softDelete: Type.Optional(
    Type.Boolean({ description: 'Rows can be marked as deleted: adds `deleted` and `deleted_at`. Default: false.' })
  ),
  indexes: Type.Optional(Type.Array(Type.Array(ColumnName, { minItems: 1 }), { description: 'Indexes, each as its columns.' })),
  unique: Type.Optional(
    Type.Array(Type.Array(ColumnName, { minItems: 1 }), {
      description: 'Sets of columns that no two rows have the same values in; in a table of tenants, no two of one tenant.'
    })
  )
}, { description: 'A table.' })
export type TableDefinition = Static<typeof TableDefinition>

export const Tables = Type.Record(Type.String({ pattern: identifier }), TableDefinition, {
  additionalProperties: false,
  expected: identifierText,
  default: {},
  description:
    'The application tables that the server makes where the database lacks them; it never drops or narrows anything. Tables that are there already need no declaration.'
})
export type Tables = Static<typeof Tables>
