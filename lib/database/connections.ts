/** The common parts of both engines: a pool of pg clients, and the settings of its sessions. */
import type { ClientConfig, Pool } from 'pg'

export interface Connections {
  readonly kind: 'postgres' | 'embedded'
  /** Of an embedded database that is not in memory. */
  readonly folder?: string
  readonly pool: Pool
  /** Connections of the pool at most. */
  readonly max: number
  /** How long a statement waits for one. */
  readonly acquireTimeoutMs: number
  readonly settings: SessionSettings
  /** How the connection is made that hears what other servers change; absent where no other can have the database. */
  readonly notices?: ClientConfig
  /** How sessions for migrations are made, apart from the pool; absent where the database has one session only. */
  readonly migrations?: ClientConfig
  /** Closes what is below the pool; called once, when the pool has ended. */
  close(): Promise<void>
}

export interface SessionSettings {
  /** How long a statement may run. */
  readonly statementTimeoutMs: number
  /** How long a connection may say nothing while an answer is due before it is ended; undefined for as long as it takes. */
  readonly silenceMs: number | undefined
  /** Give statements their names, so that each connection plans them once. Not through a transaction pooler. */
  readonly prepared: boolean
  /** Each statement and transaction has its tenant in `app.tenant_id`. */
  readonly rowLevelSecurity: boolean
  /**
   * Settings of each transaction, where a connection cannot keep its own: behind a transaction pooler two transactions
   * of one client may run on two sessions. Empty where `pool` sets them once a connection.
   */
  readonly transaction: Readonly<Record<string, string>>
}

/** The setting that says whose rows a session sees. */
export const tenantSetting = 'app.tenant_id'
/** Its value for the rows of every tenant. No tenant's id has a `*`. */
export const everyTenant = '*'
/** Its value for a request of no tenant, which sees the platform's own rows. No tenant's id has a `/`. */
export const platformRows = '/platform'

/** Settings of a session or a transaction (PostgreSQL "Client Connection Defaults"). */
export function settingsOf (statementTimeoutMs: number): Record<string, string> {
  return {
    timezone: 'UTC',
    statement_timeout: String(statementTimeoutMs),
    // A transaction is of one request; one that stands still holds locks and a connection.
    idle_in_transaction_session_timeout: String(statementTimeoutMs),
    [tenantSetting]: everyTenant
  }
}

/** SQL that makes the settings those of the session. */
export function setSession (settings: Readonly<Record<string, string>>): string {
  return `select ${Object.entries(settings).map(([name, value]) => `set_config('${name}', '${value}', false)`).join(', ')}`
}

/** SQL that makes the settings those of the transaction, with their values as parameters. */
export function setTransaction (names: readonly string[]): string {
  return `select ${names.map((name, index) => `set_config('${name}', $${index + 1}, true)`).join(', ')}`
}
