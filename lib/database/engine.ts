/** The one interface of the two database engines: PostgreSQL through `pg`, and embedded PostgreSQL (PGlite). */
import type { Kysely } from 'kysely'
import type { ResultMemory } from '../concurrency/result-memory.js'
import type { TenantRef } from '../identity/tenant-ref.js'
import type { Actor } from './audit.js'
import type { Catalogue } from './catalogue.js'
import type { RoleTables } from './declared-tables.js'
import type { VectorTable } from './document-tables.js'
import type { Events } from './events.js'
import type { WatchedTables } from './migrations/change-triggers.js'
import type { MigrationPlan, MigrationProgress } from './migrations/migration.js'
import type { SystemTables } from './system-tables.js'

/** SQL with numbered placeholders. */
export interface Statement {
  readonly text: string
  /** The name of a repeated statement that a connection prepares. `t_` begins those of tenants' documents, which have their own room. */
  readonly name?: string
  /** The limit of a tenant's slow reads applies. The text does not show this reliably, because it contains names that callers choose. */
  readonly isRead?: boolean
}

/** Executes statements: the engine itself, or one transaction of it. */
export interface Session {
  /** Runs a statement that returns at most one row of one text column, the JSON of a compiled query. Returns it, or null without a row. */
  text(statement: Statement, values: readonly unknown[]): Promise<string | null>
  /** Runs a statement and returns its rows as objects. */
  rows<Row extends Record<string, unknown>>(statement: Statement, values?: readonly unknown[]): Promise<Row[]>
}

/** The tenant of the statements: with `rowLevelSecurity` it becomes the transaction's `app.tenant_id`. */
export interface SessionOptions {
  readonly tenant: TenantRef
  /**
   * Whether the result still has a receiver, when it is the tenant's turn. If it has none, nothing runs. An error that it throws is the
   * result instead. Default: it has one.
   */
  readonly isWanted?: (() => boolean) | undefined
}

export interface TextOptions extends SessionOptions {
  /** Runs before the statement, in the same transaction and round trip, so that the statement sees its effects. Its rows are discarded. */
  readonly first?: { readonly statement: Statement, readonly values: readonly unknown[] } | undefined
}

export type Isolation = 'repeatable read' | 'serializable'

export interface TransactionOptions extends SessionOptions {
  /** Default: read committed. */
  readonly isolation?: Isolation | undefined
}

/** The part of a logger that is used here. */
export interface EngineLog {
  info(object: object, message: string): void
  warn(object: object, message: string): void
}

/** A database. It throws errors of the error catalogue, such as `databaseBusy` and `conflict`. Any other error is a bug and gives 500. */
export interface Engine {
  readonly kind: 'postgres' | 'embedded'
  /** The absolute path of an embedded database's data; undefined for one in memory, and on PostgreSQL. */
  readonly folder: string | undefined
  /** A tenant's statements see its rows; those of the platform, and of requests without a tenant, the platform's; the server's own, all. */
  readonly rowLevelSecurity: boolean
  /** The tables of the platform's roles; null without them. */
  readonly roleTables: RoleTables | null
  /** The table of vectors in pgvector; null without one. */
  readonly vectorTable: VectorTable | null
  /** The option `watched`: the tables with a trigger that records their changes. */
  readonly watched: WatchedTables
  /** Typed access to the system tables, as `app.db`. */
  readonly kysely: Kysely<SystemTables>
  /**
   * As `kysely`, for statements of a tenant on the system tables: they see the same rows, but wait for a connection in the
   * tenant's turn, like the statements of its routes. The platform's users have a turn of their own, because anyone with an
   * account of an identity provider can be such a user. Use `kysely` for look-ups that requests of all tenants wait for.
   */
  kyselyFor(tenant: TenantRef): Kysely<SystemTables>
  /** Changes of tenants' data, as `app.events`. */
  readonly events: Events
  /**
   * Starts to receive changes of other servers of the database; without it, `events` reports this server's own changes only. Resolves when
   * notices arrive, or after one failed attempt: it keeps trying, and warns, until the engine is closed.
   */
  listen(): Promise<void>
  /** The results that requests keep in memory. */
  readonly resultMemory: ResultMemory
  /** The application's tables at the last refresh. */
  readonly catalogue: Catalogue
  /** Reads the catalogue again, and calls `onCatalogue` listeners. Calls during a read share the next read. */
  refresh(): Promise<Catalogue>
  /** Calls back after each refresh with a change; returns a function that removes the listener. */
  onCatalogue(listener: (catalogue: Catalogue) => void): () => void
  /** One statement in its own transaction; repeated like a transaction. */
  text(statement: Statement, values: readonly unknown[], options: TextOptions): Promise<string | null>
  /**
   * Runs the work in one transaction: it commits when the work resolves, and rolls back when it rejects. After a serialization
   * failure or a deadlock it pauses, and runs the work again, at most three times: the work must be repeatable. The work must use
   * only its session: another statement of the engine may wait for the connection that the work holds.
   */
  transaction<T>(options: TransactionOptions, work: (session: Session) => Promise<T>): Promise<T>
  /** Finds and applies the missing changes of the database. */
  readonly migration: {
    /** `policies: false` plans without row-level security and disables existing policies: for development. Default: true. */
    plan(options?: { policies?: boolean }): Promise<MigrationPlan>
    /**
     * Applies missing changes, under a lock that all servers of the database share, and reads the catalogue again. Returns the names of the
     * applied migrations, in order; empty if nothing was missing. Logs a warning for each declaration that it does not apply. Rejects with
     * `conflict` if the database refuses a migration, and with `databaseBusy` if other sessions hold its locks too long; both messages name
     * the migration and the table. Finished steps stay, and the next call continues behind them. The platform's audit log has a record of
     * each migration that an actor requests.
     */
    apply(actor?: Actor, onProgress?: (progress: MigrationProgress) => void): Promise<string[]>
  }
  /** Whether this process has applied all missing migrations. Then a start need not look for pending ones. */
  readonly isMigrated: boolean
  /** The names of missing migrations that routes wait for, of system tables and declared tables; policies count with `rowLevelSecurity`. */
  pendingMigrations(): Promise<string[]>
  /** Resolves when the database answers within the time, in milliseconds; rejects with `databaseUnavailable` otherwise. */
  ping(timeoutMs: number): Promise<void>
  /** The figures of the connections, for `/metrics` and `/system/info`. */
  status(): { readonly total: number, readonly idle: number, readonly waiting: number }
  /** Waits for running statements and closes every connection; may be called twice. */
  close(): Promise<void>
}
