/** Sessions for migrations, apart from the pool, and the lock that keeps two servers from migrating at once. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ClientConfig } from 'pg'
import pg from 'pg'
import { type SessionSettings, setSession, settingsOf, setTransaction } from './connections.js'
import { databaseUnavailable } from './failures.js'
import type { MigrationSession } from './migrations/apply.js'
import { guardResults } from './result-stream.js'
import { encodeValues, runRows, TransactionSession } from './session.js'
import type { Step } from './wire-query.js'

/** The key of the advisory lock: a number that other programs are unlikely to choose. */
const lockKey = 7_236_815_402n
/** PostgreSQL shows the halves of the key. */
const lockHolder = `select pid from pg_locks where locktype = 'advisory' and granted and objsubid = 1
  and classid = ${lockKey >> 32n} and objid = ${lockKey & 0xffff_ffffn}
  and database = (select oid from pg_database where datname = current_database())`

/** The pause in which PostgreSQL checks that the server still exists: the index that a killed server builds would lock its table. */
const checkClient = "select set_config('client_connection_check_interval', '2s', false)"

/** The role may have a limit, which PostgreSQL before 17 does not know. An index of a large table takes longer. */
const noTransactionLimit = (isLocal: boolean): string =>
  `select set_config(name, '0', ${isLocal}) from pg_settings where name = 'transaction_timeout'`

const firstPauseMs = 100 // ms between attempts to get a lock that another server holds
const longestPauseMs = 1000

interface MigrationConnections {
  readonly config: ClientConfig
  readonly settings: SessionSettings
  /** The longest wait of a statement outside a transaction for one lock, in milliseconds. */
  readonly patienceMs: number
  readonly translate: (error: unknown) => unknown
  /** Aborted when the engine closes: no attempt to get the lock and no step begins after that. */
  readonly closed: AbortSignal
  /** Another server holds the lock, served by this process of PostgreSQL. Called once. */
  readonly onQueued: (holder: number | undefined) => void
}

/**
 * Runs the work while it holds the lock. A transaction on a separate session holds the lock: it lasts while others commit, also
 * behind a pooler. A waiting server polls the lock: a statement that waits for it would block an index that is built
 * concurrently, because the index waits for every earlier statement.
 */
export async function withMigrationSession<T> (
  connections: MigrationConnections,
  work: (session: MigrationSession) => Promise<T>
): Promise<T> {
  const { translate, closed, onQueued } = connections
  const clients = [open(connections.config), open(connections.config)] as const
  const [holder, worker] = clients
  let lost: unknown = null
  holder.on('error', (error) => {
    lost ??= error
  })
  worker.on('error', () => {})
  try {
    await Promise.all(clients.map((client) => client.connect()))
    for (const client of clients) guardResults(client.connection.stream)
    await holdLock(holder, closed, onQueued)
    return await work(
      await migrationSession(worker, connections, () => {
        if (lost !== null) throw databaseUnavailable(lost)
        closed.throwIfAborted()
      })
    )
  } catch (error) {
    throw translate(error)
  } finally {
    await Promise.allSettled(clients.map((client) => client.end()))
  }
}

function open (config: ClientConfig): pg.Client {
  return new pg.Client({ ...config, keepAlive: true })
}

/**
 * An index that is built concurrently waits for every open snapshot. This transaction must have none: it reads committed rows, and uses the
 * simple protocol, since the portal of an extended statement keeps its snapshot.
 */
async function holdLock (client: pg.Client, closed: AbortSignal, onQueued: MigrationConnections['onQueued']): Promise<void> {
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 2, longestPauseMs)) {
    await client.query(`begin isolation level read committed; set local idle_in_transaction_session_timeout = '0'; ${noTransactionLimit(true)}`)
    const { rows: [found] } = await client.query<{ held: boolean }>(`select pg_try_advisory_xact_lock(${lockKey}) as held`)
    if (found?.held === true) return
    if (pauseMs === firstPauseMs) onQueued((await client.query<{ pid: number }>(lockHolder)).rows[0]?.pid)
    await client.query('rollback')
    await sleep(pauseMs * (0.5 + Math.random()), undefined, { signal: closed }).catch(() => closed.throwIfAborted())
  }
}

async function migrationSession (
  client: pg.Client,
  { settings, patienceMs, translate }: MigrationConnections,
  assertHeld: () => void
): Promise<MigrationSession> {
  const lasting = { ...settingsOf(0), lock_timeout: `${patienceMs}ms` }
  const run = (steps: readonly Step[]) => runRows(client, steps, undefined)
  const keepsSettings = Object.keys(settings.transaction).length === 0
  if (keepsSettings) {
    await run([{ text: setSession(lasting), values: [] }])
    await run([{ text: noTransactionLimit(false), values: [] }])
    // Not every system can tell, and PostgreSQL refuses the setting there.
    await run([{ text: checkClient, values: [] }]).catch(() => {})
  }
  const within = { ...settings, silenceMs: undefined, prepared: false }
  const prelude = (own: Readonly<Record<string, string>>): Step => {
    const all = { ...lasting, ...own }
    return { text: setTransaction(Object.keys(all)), values: Object.values(all) }
  }
  const guarded = async <T>(work: () => Promise<T>): Promise<T> => {
    assertHeld()
    try {
      return await work()
    } catch (error) {
      await run([{ text: 'rollback', values: [] }]).catch(() => {})
      throw translate(error)
    }
  }
  return {
    transaction: (work) =>
      guarded(async () => {
        const session = new TransactionSession(client, within, [prelude({})], translate)
        const result = await work(session)
        await session.commit()
        return result
      }),
    batch: (own, statements) =>
      guarded(async () => {
        const steps = statements.map(({ text, values }) => ({ text, values: encodeValues(values) }))
        await run([{ text: 'begin', values: [] }, prelude(own), ...steps, { text: 'commit', values: [] }])
      }),
    alone: (text) =>
      guarded(async () => {
        await run([{ text, values: [] }])
      })
  }
}
