/** PostgreSQL through pg, directly or through a pooler. */
import pg, { type ClientConfig, type PoolClient } from 'pg'
import type { Static } from 'typebox'
import type { Postgres } from '../schema/database.js'
import { type Connections, setSession, settingsOf } from './connections.js'
import { unreachable } from './failures.js'
import { guardResults } from './result-stream.js'
import { runRows } from './session.js'
import { addressOf } from './tls.js'

/** The document's `postgres` section with its `connectionString`. */
export type PostgresOptions = Static<ReturnType<typeof Postgres>> & { readonly connectionString: string }

const timeToTell = 1000 // ms for the database to report a statement's timeout
const keepAliveAfterMs = 10_000 // ms without traffic, after which the system's probes detect a vanished peer
const idleAfterMs = 60_000 // ms until an unused connection is closed

export function connectPostgres (
  {
    connectionString,
    notifyConnectionString = connectionString,
    pool: { max = 10, acquireTimeoutMs = 5000, statementTimeoutMs = 30_000 } = {},
    preparedStatements = true,
    rowLevelSecurity = false,
    ssl
  }: PostgresOptions
): Connections {
  const silenceMs = statementTimeoutMs + timeToTell
  const settings = settingsOf(statementTimeoutMs)
  const address = addressOf(connectionString, ssl)
  const processes = new WeakMap<object, number>()
  /** Read-only sessions, as on a standby; none since the last one that may write. */
  const readOnly = new Set<object>()
  const outdated = new WeakSet<object>()
  const pool = new pg.Pool({
    ...address,
    max,
    connectionTimeoutMillis: acquireTimeoutMs,
    idleTimeoutMillis: idleAfterMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: keepAliveAfterMs,
    ...preparedStatements && {
      onConnect: async (client) => {
        const { rows: [row] } = await runRows(
          client,
          [{
            text: `${setSession(settings)}, pg_backend_pid() as session, current_setting('transaction_read_only') as read_only`,
            values: []
          }],
          silenceMs
        )
        const process: unknown = row?.['session']
        // A pooler invents an id of its own.
        if (typeof process === 'number' && process === announcedBy(client)) processes.set(client, process)
        if (row?.['read_only'] === 'on') readOnly.add(client)
        else {
          for (const earlier of readOnly) outdated.add(earlier)
          readOnly.clear()
        }
      }
    }
  })
  pool.on('connect', (client) => {
    if (client instanceof pg.Client) guardResults(client.connection.stream)
  })
  pool.on('remove', (client) => {
    readOnly.delete(client)
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
    migrations: { ...address, connectionTimeoutMillis: acquireTimeoutMs },
    notices: addressOf(notifyConnectionString, ssl),
    processOf: (client) => processes.get(client),
    outdated,
    async close () {}
  }
}

/** The remedy for a pooler that loses the settings of a session. */
export const poolerAdvice =
  'set "preparedStatements": false in the section "postgres", which sends the settings with each transaction, or connect directly to the database or through a session pooler'

/**
 * Throws if the pool leads through a transaction pooler: settings of a connection, such as the visible tenant, would end with the session
 * behind it. The process id shows it: the database announces its own, a pooler invents one. A session pooler passes, since an idle
 * connection keeps its session.
 */
export async function refuseTransactionPooler ({ pool, migrations: config = {} }: Connections): Promise<void> {
  const client = await pool.connect().catch((error: unknown) => {
    throw unreachable(error)
  })
  try {
    const session = await sessionOf(client)
    if (announcedBy(client) === session) return
    if (await isShared(client, session, config)) {
      throw new Error(
        `postgres.connectionString uses a transaction pooler, such as PgBouncer with pool_mode=transaction, which loses the settings of a session: ${poolerAdvice}`
      )
    }
  } finally {
    client.release()
  }
}

/** Whether another connection, in a transaction, gets the idle client's session, or leaves it another one. */
async function isShared (client: PoolClient, session: number, config: ClientConfig): Promise<boolean> {
  const other = new pg.Client(config)
  other.on('error', () => {})
  try {
    await other.connect()
    await other.query('begin')
    if (await sessionOf(other) === session) return true
    return await sessionOf(client) !== session
  } catch {
    // A session pooler without a second session keeps the first one for this server.
    return false
  } finally {
    await other.end().catch(() => {})
  }
}

function announcedBy (client: object): unknown {
  return Reflect.get(client, 'processID')
}

async function sessionOf (client: PoolClient | pg.Client): Promise<number> {
  const { rows: [row] } = await client.query<{ session: number }>('select pg_backend_pid() as session')
  if (row === undefined) throw new Error("the database did not return the session's id")
  return row.session
}
