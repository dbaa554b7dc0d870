/** PostgreSQL through pg. */
import type { Static } from 'typebox'
import type { Postgres } from '../config/schema/database.js'
import pg from 'pg'
import { setSession, settingsOf, type Connections } from './connections.js'
import { runRows } from './session.js'

/** The document's `postgres` section, where `connectionString` is required. */
export type PostgresOptions = Static<ReturnType<typeof Postgres>> & { readonly connectionString: string }

const defaults = { max: 10, acquireTimeoutMs: 5000, statementTimeoutMs: 30_000 }
const timeToTell = 1000 // ms that the database may take to say that a statement took too long
const keepAliveAfterMs = 10_000 // without traffic; a peer that vanished is noticed by the system's probes from then on
const idleAfterMs = 60_000 // an unused connection is given back to the server

export function connectPostgres ({ connectionString, pool = {}, preparedStatements = true, rowLevelSecurity = false, ssl }: PostgresOptions): Connections {
  const statementTimeoutMs = pool.statementTimeoutMs ?? defaults.statementTimeoutMs
  const silenceMs = statementTimeoutMs + timeToTell
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
      ...preparedStatements && { onConnect: async (client) => { await runRows(client, [{ text: setSession(settings), values: [] }], silenceMs) } }
    }),
    settings: { statementTimeoutMs, silenceMs, prepared: preparedStatements, rowLevelSecurity, transaction: preparedStatements ? {} : settings },
    async close () {}
  }
}
