/** PostgreSQL through pg. */
import type { Static } from 'typebox'
import type { Postgres } from '../schema/database.js'
import pg from 'pg'
import { guardResults } from './result-stream.js'
import { setSession, settingsOf, type Connections } from './connections.js'
import { runRows } from './session.js'

/** The document's `postgres` section with its `connectionString`. */
export type PostgresOptions = Static<ReturnType<typeof Postgres>> & { readonly connectionString: string }

const defaults = { max: 10, acquireTimeoutMs: 5000, statementTimeoutMs: 30_000 }
const timeToTell = 1000 // ms for the database to report a statement's timeout
const keepAliveAfterMs = 10_000 // ms without traffic, after which the system's probes detect a vanished peer
const idleAfterMs = 60_000 // ms until an unused connection is closed

export function connectPostgres (
  {
    connectionString,
    notifyConnectionString = connectionString,
    pool: poolOptions = {},
    preparedStatements = true,
    rowLevelSecurity = false,
    ssl
  }: PostgresOptions
): Connections {
  const statementTimeoutMs = poolOptions.statementTimeoutMs ?? defaults.statementTimeoutMs
  const silenceMs = statementTimeoutMs + timeToTell
  const max = poolOptions.max ?? defaults.max
  const acquireTimeoutMs = poolOptions.acquireTimeoutMs ?? defaults.acquireTimeoutMs
  const settings = settingsOf(statementTimeoutMs)
  const tls = ssl === undefined ? {} : { ssl }
  const pool = new pg.Pool({
    connectionString,
    ...tls,
    max,
    connectionTimeoutMillis: acquireTimeoutMs,
    idleTimeoutMillis: idleAfterMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: keepAliveAfterMs,
    ...preparedStatements && {
      onConnect: async (client) => {
        await runRows(client, [{ text: setSession(settings), values: [] }], silenceMs)
      }
    }
  })
  pool.on('connect', (client) => {
    if (client instanceof pg.Client) guardResults(client.connection.stream)
  })
  return {
    kind: 'postgres',
    max,
    acquireTimeoutMs,
    pool,
    settings: {
      statementTimeoutMs,
      silenceMs,
      prepared: preparedStatements,
      rowLevelSecurity,
      transaction: preparedStatements ? {} : settings
    },
    migrations: { connectionString, ...tls, connectionTimeoutMillis: acquireTimeoutMs },
    notices: { connectionString: notifyConnectionString, ...tls },
    async close () {}
  }
}
