/**
 * The catalogue: what the application's schema holds. Identifiers in SQL come only from here, never from a caller.
 */
import type { columnTypeNames } from '../schema/table.js'

/** The column that makes a table tenant-scoped. */
export const tenantColumn = 'tenant_id'

/** A column of an application table. */
export interface Column {
  readonly name: string
  /**
   * PostgreSQL's type as `format_type` prints it without modifiers: `text`, `uuid`, `timestamp with time zone`, `text[]`, or an
   * enum's name.
   */
  readonly type: string
  readonly notNull: boolean
  /** The column has a default, or is an identity column. */
  readonly hasDefault: boolean
  /** Generated always: it can be read and never written. */
  readonly generated: boolean
  /** The labels, where the type is an enum. */
  readonly labels?: readonly string[]
  /** Of `varchar(20)`, `char(20)` and arrays of them: how many characters it takes. */
  readonly maxLength?: number
  /** Of `numeric(5, 2)` and arrays of it: how many digits it has, */
  readonly precision?: number
  /** and how many of them behind the point; negative where the digits before the point are rounded. */
  readonly scale?: number
}

/** A foreign key of a table: `columns` of this table refer to `referencedColumns` of `referencedTable`, in the same schema. */
export interface ForeignKey {
  readonly name: string
  readonly columns: readonly string[]
  readonly referencedTable: string
  readonly referencedColumns: readonly string[]
  /** Deleting the referenced row changes rows of this table: `on delete cascade`, `set null` or `set default`. Default: it does not. */
  readonly followsDelete?: boolean
  /** The same for a change of the referenced columns. */
  readonly followsUpdate?: boolean
}

/** A table or view that routes can name. */
export interface Table {
  readonly name: string
  readonly columns: ReadonlyMap<string, Column>
  readonly primaryKey: readonly string[]
  /** Unique constraints and unique indexes without a condition, each as its columns; the primary key is not repeated. */
  readonly uniqueKeys: readonly (readonly string[])[]
  readonly foreignKeys: readonly ForeignKey[]
  /** It has a `tenant_id` column: every query on it carries the request's tenant. */
  readonly tenantScoped: boolean
  /** It has `deleted` (boolean) and `deleted_at` (timestamp) columns. */
  readonly softDelete: boolean
  /** A view is read only. */
  readonly view: boolean
  /** Its rows stand in partitions. Default: false. */
  readonly partitioned?: boolean
  /** Of a view: the tables of the schema that it reads, through other views too. */
  readonly readsFrom?: readonly string[]
  /** Of a table that inherits, or is inherited from: the other tables of its family, in which its rows may stand too. */
  readonly family?: readonly string[]
  /**
   * Of a table without `tenant_id`: the tables that inherit from it and have one, of any schema. A query on this table reads
   * and changes their rows too, of every tenant, and no policy of theirs applies.
   */
  readonly tenantHeirs?: readonly string[]
}

/** An argument of a function. */
export interface FunctionArgument {
  readonly name: string
  readonly type: string
  /** The function has a default for it. */
  readonly hasDefault: boolean
}

/** A function of the schema; procedures, aggregates and those of extensions are none. */
export interface DatabaseFunction {
  readonly name: string
  /** Those that a caller gives. */
  readonly arguments: readonly FunctionArgument[]
  /** As PostgreSQL writes it: `integer`, `SETOF articles`, `TABLE(id uuid, n bigint)`, `void`. */
  readonly returns: string
  /** The type of one result, or of each. */
  readonly type: string
  readonly many: boolean
  /** The columns of a row; null where the result is one value. */
  readonly columns: readonly Column[] | null
  readonly volatile: boolean
  /** Why no request may call it; null where one may. */
  readonly refused: string | null
}

/** The application tables of one schema at one moment; frozen, replaced as a whole by a refresh. */
export interface Catalogue {
  /** The schema that holds the application's tables, `public` by default. */
  readonly schema: string
  readonly tables: ReadonlyMap<string, Table>
  /** By name, each with what is overloaded under it. Default: they are not known, and calls are compiled without them. */
  readonly functions?: ReadonlyMap<string, readonly DatabaseFunction[]>
  /** Policies keep the rows of tenants apart in whatever a statement runs. Default: false. */
  readonly rowLevelSecurity?: boolean
  /** Text search configurations by name, each as its quoted name with its schema. Default: they are not known. */
  readonly searchConfigurations?: ReadonlyMap<string, string>
  /** The database may have further tables: queries on them are compiled without their columns. Default: false. */
  readonly partial?: boolean
}

/** The catalogue of a document whose database was not asked. */
export const unknownCatalogue: Catalogue = Object.freeze({ schema: 'public', tables: new Map(), partial: true })

/** Whether two keys are of the same columns, in whatever order. */
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
