/**
 * The one interface of the two database engines: PostgreSQL through `pg`, and embedded PostgreSQL (PGlite).
 */
import type { Kysely } from 'kysely'
import type { Actor } from './audit.js'
import type { Catalogue } from './catalogue.js'
import type { Events } from './events.js'
import type { MigrationProgress } from './migrations/progress.js'
import type { MigrationPlan } from './migrations/migration.js'
import type { TenantRef } from '../identity/tenant-ref.js'
import type { VectorTable } from './document-tables.js'
import type { RoleTables } from './role-tables.js'
import type { SystemTables } from './system-tables.js'

/** SQL with numbered placeholders. */
export interface Statement {
  readonly text: string
  /**
   * Makes it a statement that a connection prepares when it comes back (prepared-statements.ts). It begins with `t_` where
   * the text comes from a tenant's document: those have room of their own, so that they push out none of the platform's.
   */
  readonly name?: string
}

/** Where statements run: the engine itself, or one transaction of it. */
export interface Session {
  /**
   * Runs a statement that answers at most one row of one text column, and returns that text (compiled queries let
   * PostgreSQL build the JSON), or null where there was no row.
   */
  text(statement: Statement, values: readonly unknown[]): Promise<string | null>
  /** Runs a statement and returns its rows as objects. */
  rows<Row extends Record<string, unknown>>(statement: Statement, values?: readonly unknown[]): Promise<Row[]>
}

/** Whose statements these are: with `rowLevelSecurity` the tenant becomes the transaction's `app.tenant_id`. */
export interface SessionOptions {
  readonly tenant: TenantRef
}

export interface TextOptions extends SessionOptions {
  /**
   * Runs before the statement, in the same transaction and round trip: what it waits for is there for the statement to see.
   * Its rows are dropped.
   */
  readonly first?: { readonly statement: Statement, readonly values: readonly unknown[] } | undefined
}

export type Isolation = 'repeatable read' | 'serializable'

export interface TransactionOptions extends SessionOptions {
  /** Default: read committed. */
  readonly isolation?: Isolation | undefined
}

/** What of a logger the engine uses. */
export interface EngineLog {
  info(object: object, message: string): void
  warn(object: object, message: string): void
}

/** What the engine tells about its connections, for `/metrics` and `/system/info`. */
export interface EngineStatus {
  readonly total: number
  readonly idle: number
  readonly waiting: number
}

/** What the database lacks, and how it gets it. */
export interface Migration {
  /** `policies: false` plans without row-level security and takes it out of force: for development. Default: true. */
  plan(options?: { policies?: boolean }): Promise<MigrationPlan>
  /**
   * Applies what is lacking, under a lock that all servers of the database share, and reads the catalogue again. Returns
   * the names of the applied migrations, in order; none where nothing was lacking. Rejects with `conflict` where the
   * database refuses a migration, and with `databaseBusy` where other sessions hold its locks too long; both messages name
   * the migration and the table. Finished steps stay, and the next call continues behind them. The platform's audit log
   * has a record of each migration that an actor asks for.
   */
  apply(actor?: Actor, onProgress?: (progress: MigrationProgress) => void): Promise<string[]>
}

/**
 * A database. Errors are already those of the catalogue of errors: `databaseUnavailable`, `databaseBusy`, `conflict`,
 * `constraintViolated`, `invalidValue`, `schemaChanged`; anything else is a fault of ours and answers 500.
 */
export interface Engine {
  readonly kind: 'postgres' | 'embedded'
  /** Where the data of an embedded database are, absolute; undefined for one in memory, and on PostgreSQL. */
  readonly folder: string | undefined
  /**
   * Statements of a tenant see the tenant's rows, those of the platform and of requests without a tenant see the platform's,
   * and the server's own see all.
   */
  readonly rowLevelSecurity: boolean
  /** The tables of the platform's roles; null where the document has none. */
  readonly roleTables: RoleTables | null
  /** The table of vectors in pgvector; null where the document has none. */
  readonly vectorTable: VectorTable | null
  /** Typed access to the system tables; what `app.db` is. */
  readonly kysely: Kysely<SystemTables>
  /**
   * The same for what a tenant asks of the system tables: its statements wait in the tenant's turn for a connection, as
   * those of its routes do, and not as the server's own. They see what `kysely` sees. The platform's users
   * have a turn of theirs: anybody may be one, with an account of an identity provider. For look-ups that requests of any
   * tenant wait for, `kysely` is.
   */
  kyselyFor(tenant: TenantRef): Kysely<SystemTables>
  /** Changes of what tenants own; what `app.events` is. */
  readonly events: Events
  /**
   * Begins to hear what other servers of the database change; without it `events` tells of this server's own changes only.
   * Resolves when notices arrive, or when that was tried once: it goes on trying, and warns, until the engine is closed.
   */
  listen(): Promise<void>
  /** The application's tables as they were at the last refresh. */
  readonly catalogue: Catalogue
  /**
   * Reads the catalogue again, from now on, and tells `onCatalogue` listeners; calls that come while it is read share the read
   * after that.
   */
  refresh(): Promise<Catalogue>
  /** Calls back after each refresh that changed something; returns the function that ends it. */
  onCatalogue(listener: (catalogue: Catalogue) => void): () => void
  /** One statement in a transaction of its own; tried again as a transaction is. */
  text(statement: Statement, values: readonly unknown[], options: TextOptions): Promise<string | null>
  /**
   * Runs the work in one transaction: committed when it resolves, rolled back when it rejects. After a serialization
   * failure or a deadlock the work runs again, up to three times more: it must do nothing that cannot be done twice. It
   * must use its session only: another statement of the engine may wait for the connection that the work has.
   */
  transaction<T>(options: TransactionOptions, work: (session: Session) => Promise<T>): Promise<T>
  readonly migration: Migration
  /** The names of migrations, system and declared tables alike, that routes wait for; policies count with `rowLevelSecurity`. */
  pendingMigrations(): Promise<string[]>
  /** Resolves when the database answers within the time, in milliseconds; rejects with `databaseUnavailable` otherwise. */
  ping(timeoutMs: number): Promise<void>
  status(): EngineStatus
  /** Waits for running statements and closes every connection; may be called twice. */
  close(): Promise<void>
}
