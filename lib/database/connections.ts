/** The common parts of both engines: a pool of pg clients, and the settings of its sessions. */
import type { ClientConfig, Pool } from 'pg'

export interface Connections {
  readonly kind: 'postgres' | 'embedded'
  /** The folder of an embedded database on disk. */
  readonly folder?: string
  readonly pool: Pool
  /** The highest number of connections in the pool. */
  readonly max: number
  /** The longest wait of a statement for a connection. */
  readonly acquireTimeoutMs: number
  readonly settings: SessionSettings
  /** The options of the connection for change notices; absent for a database of this process only. */
  readonly notices?: ClientConfig
  /** The process of the database that serves the connection; undefined if it is unknown, as behind a pooler. */
  readonly processOf?: (client: object) => number | undefined
  /** Clients whose session began on a standby, before a later one on the primary: the standby may no longer follow. */
  readonly outdated?: WeakSet<object>
  /** The options of sessions for migrations, apart from the pool; absent if the database has one session only. */
  readonly migrations?: ClientConfig
  /** Closes the layer below the pool; called once, after the pool has ended. */
  close(): Promise<void>
}

export interface SessionSettings {
  /** The time limit of a statement. */
  readonly statementTimeoutMs: number
  /** The time limit of a silent connection with a pending result; undefined for no limit. */
  readonly silenceMs: number | undefined
  /** Name statements, so that each connection plans them once. Not possible through a transaction pooler. */
  readonly prepared: boolean
  /** Each statement and transaction has its tenant in `app.tenant_id`. */
  readonly rowLevelSecurity: boolean
  /** Settings of each transaction, if a transaction pooler gives a client's transactions different sessions; else empty. */
  readonly transaction: Readonly<Record<string, string>>
}

/** The setting with the visible tenant of a session. */
export const tenantSetting = 'app.tenant_id'
/** Its value for the rows of every tenant. No tenant's id has a `*`. */
export const everyTenant = '*'
/** Its value for a request without a tenant, which sees the platform's own rows. No tenant's id has a `/`. */
export const platformRows = '/platform'

/** Settings of a session or a transaction (PostgreSQL "Client Connection Defaults"). */
export function settingsOf (statementTimeoutMs: number): Record<string, string> {
  return {
    timezone: 'UTC',
    statement_timeout: String(statementTimeoutMs),
    // A transaction belongs to one request; an idle one holds locks and a connection.
    idle_in_transaction_session_timeout: String(statementTimeoutMs),
    // Compiling a statement takes longer than running it, since the planner overestimates short ones.
    jit: 'off',
    [tenantSetting]: everyTenant
  }
}

/** SQL that applies the settings to the session. */
export function setSession (settings: Readonly<Record<string, string>>): string {
  return `select ${Object.entries(settings).map(([name, value]) => `set_config('${name}', '${value}', false)`).join(', ')}`
}

/** SQL that applies the settings to the transaction, with their values as parameters. */
export function setTransaction (names: readonly string[]): string {
  return `select ${names.map((name, index) => `set_config('${name}', $${index + 1}, true)`).join(', ')}`
}
