/** The catalogue: the objects of the application's schema. Identifiers in SQL come only from here, never from a caller. */
import type { columnTypeNames } from '../schema/table.js'

/** The column that makes a table tenant-scoped. */
export const tenantColumn = 'tenant_id'

export interface Column {
  readonly name: string
  /** PostgreSQL's type as `format_type` prints it without modifiers: `text`, `timestamp with time zone`, `text[]`, or an enum's name. */
  readonly type: string
  /** For an array of a domain: the type of its values, such as `integer[]`. Default: `type`. */
  readonly valueType?: string
  /**
   * PostgreSQL returns values, or the items of an array, as JSON of any type: for a composite type, or a type with a cast to `json`.
   * Requests send their text. Default: false.
   */
  readonly opaque?: boolean
  readonly notNull: boolean
  /** The column has a default, or is an identity column. */
  readonly hasDefault: boolean
  /** A generated column: it can be read but not written. */
  readonly generated: boolean
  /** The labels of an enum. */
  readonly labels?: readonly string[]
  /**
   * For an array of several dimensions, such as `integer[][]`: their declared number. 0 if the database does not know it, as in a table
   * made by `like` or `create table as`, or in a view of such columns. Other arrays have no arrays as items.
   */
  readonly dimensions?: number
  /** Its collation is nondeterministic: different texts can be equal. Default: false. */
  readonly nondeterministic?: true
  /** The database has no `like` for its collation: a nondeterministic one before PostgreSQL 18. Default: false. */
  readonly withoutLike?: true
  /** For `varchar(20)`, `char(20)` and arrays of them: the number of characters. */
  readonly maxLength?: number
  /** For `numeric(5, 2)` and arrays of it: the number of digits. */
  readonly precision?: number
  /** The number of digits after the point, with `precision`. Negative if digits before the point are rounded. */
  readonly scale?: number
}

/** A foreign key of a table: `columns` of this table refer to `referencedColumns` of `referencedTable`, in the same schema. */
export interface ForeignKey {
  readonly name: string
  readonly columns: readonly string[]
  readonly referencedTable: string
  readonly referencedColumns: readonly string[]
  /** Deleting the referenced row changes rows of this table: `on delete cascade`, `set null` or `set default`. Default: false. */
  readonly followsDelete?: boolean
  /** As `followsDelete`, for a change of the referenced columns. */
  readonly followsUpdate?: boolean
}

/** A table or view that routes can name. */
export interface Table {
  readonly name: string
  readonly columns: ReadonlyMap<string, Column>
  readonly primaryKey: readonly string[]
  /** Unique constraints and unique indexes without a condition, each as its columns; the primary key is not repeated. */
  readonly uniqueKeys: readonly (readonly string[])[]
  /** Those of the primary and unique keys that PostgreSQL may check at the commit: an upsert cannot find a row by them. Default: none. */
  readonly deferrableKeys?: readonly (readonly string[])[]
  readonly foreignKeys: readonly ForeignKey[]
  /** It has a `tenant_id` column: every query on it is restricted to the request's tenant. */
  readonly tenantScoped: boolean
  /** It has `deleted` (boolean) and `deleted_at` (timestamp) columns. */
  readonly softDelete: boolean
  readonly view: boolean
  /** Its rows are in partitions. Default: false. */
  readonly partitioned?: boolean
  /** For a view: the tables of the schema that it reads, also through other views. */
  readonly readsFrom?: readonly string[]
  /** For a table with inheritance: the other tables of its family, which may contain its rows. */
  readonly family?: readonly string[]
  /** For a table without `tenant_id`: tables with one that inherit from it. A query on this table reads and changes every tenant's rows. */
  readonly tenantChildren?: readonly string[]
}

export interface FunctionArgument extends Pick<Column, 'valueType'> {
  readonly name: string
  readonly type: string
  /** For a domain: the type behind it. Default: `type`. */
  readonly baseType?: string
  /** The database has a default for it. */
  readonly hasDefault: boolean
}

/** A function of the schema, without procedures, aggregates and functions of extensions. */
export interface DatabaseFunction extends Pick<Column, 'valueType' | 'opaque'> {
  readonly name: string
  /** The arguments that a caller gives. */
  readonly arguments: readonly FunctionArgument[]
  /** In PostgreSQL's form: `integer`, `SETOF articles`, `TABLE(id uuid, n bigint)`, `void`. */
  readonly returns: string
  /** The type of one result, or of each; for a domain, its base type. */
  readonly type: string
  readonly many: boolean
  /** The columns of a row; null for a single value. */
  readonly columns: readonly Column[] | null
  readonly volatile: boolean
  /** The reason why no request may call it; null if it is callable. */
  readonly refused: string | null
}

/** The application tables of one schema at one time; frozen, replaced as a whole by a refresh. */
export interface Catalogue {
  /** The schema that holds the application's tables, `public` by default. */
  readonly schema: string
  readonly tables: ReadonlyMap<string, Table>
  /** Functions by name, each with its overloads. Default: unknown, and calls are compiled without them. */
  readonly functions?: ReadonlyMap<string, readonly DatabaseFunction[]>
  /** Policies separate the rows of tenants in every statement. Default: false. */
  readonly rowLevelSecurity?: boolean
  /** Text search configurations by name, each as its quoted name with its schema. Default: unknown. */
  readonly searchConfigurations?: ReadonlyMap<string, string>
  /** The database may have further tables: queries on them are compiled without their columns. Default: false. */
  readonly partial?: boolean
}

/** The catalogue of a document without a database. */
export const unknownCatalogue: Catalogue = Object.freeze({ schema: 'public', tables: new Map(), partial: true })

/** The columns mark deleted rows. */
export function isSoftDelete (columns: Table['columns']): boolean {
  return columns.get('deleted')?.type === 'boolean' && columns.get('deleted_at')?.type.startsWith('timestamp') === true
}

/** The database computes the tenant of a row from its other columns, so that a write could choose another tenant. */
export function isTenantComputed ({ columns }: Pick<Table, 'columns'>): boolean {
  return columns.get(tenantColumn)?.generated === true
}

/** The columns that identify a row within its tenant: the primary key without `tenant_id`, which every query adds anyway. */
export function keyColumns ({ primaryKey }: Pick<Table, 'primaryKey'>): readonly string[] {
  const own = primaryKey.filter((column) => column !== tenantColumn)
  return own.length > 0 ? own : primaryKey
}

/** Whether two keys have the same columns, in any order. */
export function sameColumns (left: readonly string[], right: readonly string[]): boolean {
  return left.length === right.length && left.every((column) => right.includes(column))
}

/** PostgreSQL's name of each type, as `format_type` prints it. */
export const typeNames = {
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
} as const satisfies Record<typeof columnTypeNames[number], string>
