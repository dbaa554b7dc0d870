/** Detects a transaction pooler, which runs the statements of one connection on changing sessions. */
import type { ClientConfig, Pool, PoolClient } from 'pg'
import pg from 'pg'

/** The remedy for a pooler that loses the settings of a session. */
export const poolerAdvice =
  'set "preparedStatements": false in the section "postgres", which sends the settings with each transaction, or connect directly to the database or through a session pooler'

/**
 * Throws if the pool leads through a transaction pooler: settings of a connection, such as the visible tenant, would end with the session
 * behind it. The process id shows it: the database announces its own, a pooler invents one. A session pooler passes, since an idle
 * connection keeps its session.
 */
export async function refuseTransactionPooler (pool: Pool, config: ClientConfig): Promise<void> {
  const client = await pool.connect()
  try {
    const session = await sessionOf(client)
    const announced: unknown = Reflect.get(client, 'processID')
    if (announced === session) return
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

async function sessionOf (client: PoolClient | pg.Client): Promise<number> {
  const { rows: [row] } = await client.query<{ session: number }>('select pg_backend_pid() as session')
  if (row === undefined) throw new Error("the database did not return the session's id")
  return row.session
}
