/** PostgreSQL through pg. */
import type { PoolConfig } from 'pg'
import pg from 'pg'
import { setSession, settingsOf, type Connections } from './connections.js'

/** The document's `postgres` section (DESIGN 3). */
export interface PostgresOptions {
  /** `postgres://user:password@host:port/database`. */
  readonly connectionString: string
  /** The schema of the application's tables. Default: `public`. */
  readonly schema?: string | undefined
  readonly pool?: {
    /** Connections at most. Default: 10. */
    readonly max?: number | undefined
    /** How long a statement waits for a free connection, in milliseconds, before it fails with `databaseBusy`. Default: 5000. */
    readonly acquireTimeoutMs?: number | undefined
    /** How long a statement may run, in milliseconds, before it fails with `databaseBusy`. Default: 30000. */
    readonly statementTimeoutMs?: number | undefined
  } | undefined
  /** Name statements, so that each connection plans them once; false behind a transaction pooler. Default: true. */
  readonly preparedStatements?: boolean | undefined
  /** Put the tenant into each transaction, for the policies of the migration. Default: false. */
  readonly rowLevelSecurity?: boolean | undefined
  /** TLS: true, or node's TLS options. Default: what the connection string says. */
  readonly ssl?: PoolConfig['ssl']
}

const defaults = { max: 10, acquireTimeoutMs: 5000, statementTimeoutMs: 30_000 }
const keepAliveAfterMs = 10_000 // without traffic; a peer that vanished is noticed by the system's probes from then on
const idleAfterMs = 60_000 // an unused connection is given back to the server

export function connectPostgres ({ connectionString, pool = {}, preparedStatements = true, rowLevelSecurity = false, ssl }: PostgresOptions): Connections {
  const statementTimeoutMs = pool.statementTimeoutMs ?? defaults.statementTimeoutMs
  const settings = settingsOf(statementTimeoutMs)
  return {
    kind: 'postgres',
    pool: new pg.Pool({
      connectionString,
      ...ssl !== undefined && { ssl },
      max: pool.max ?? defaults.max,
      connectionTimeoutMillis: pool.acquireTimeoutMs ?? defaults.acquireTimeoutMs,
      idleTimeoutMillis: idleAfterMs,
      keepAlive: true,
      keepAliveInitialDelayMillis: keepAliveAfterMs,
      ...preparedStatements && { onConnect: async (client) => { await client.query(setSession(settings)) } }
    }),
    settings: { statementTimeoutMs, prepared: preparedStatements, rowLevelSecurity, transaction: preparedStatements ? {} : settings },
    async close () {}
  }
}
