/**
 * Finds connections that were lost without a sign: after a failover, or in a network that forgot them, their packets are dropped while new
 * connections work. The database is asked, on a new connection, whether it still runs their statements.
 */
import { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import pg, { type ClientConfig, type PoolClient } from 'pg'
import type { Connections } from './connections.js'

const checkMs = 500 // ms
const silentMs = 2000 // ms without a byte, after which the database is asked
const arrivalMs = 1000 // ms for the response of a statement that has just ended
const askMs = 2000 // ms to connect, and again for the response

interface SilenceWatchParts extends Pick<Connections, 'notices' | 'processOf'> {
  /** The connections in use. */
  readonly busy: () => Iterable<PoolClient>
  readonly onLost: (client: PoolClient) => void
}

interface Silence {
  readonly bytes: number
  /** In milliseconds of the process's clock. */
  readonly since: number
}

/** Returns a function that ends the watch. */
export function watchSilence ({ notices, processOf, busy, onLost }: SilenceWatchParts): () => void {
  if (notices === undefined || processOf === undefined) return () => {}
  let silences = new Map<PoolClient, Silence>()
  let isAsking = false
  const timer = setInterval(check, checkMs, notices, processOf).unref()

  function check (config: ClientConfig, processOf: (client: object) => number | undefined): void {
    const earlier = silences
    silences = new Map()
    const late = new Map<number, PoolClient>()
    const now = performance.now()
    for (const client of busy()) {
      const bytes = silentBytes(client)
      if (bytes === null) continue
      const known = earlier.get(client)
      const silence = known?.bytes === bytes ? known : { bytes, since: now }
      silences.set(client, silence)
      const process = processOf(client)
      if (process !== undefined && now - silence.since >= silentMs) late.set(process, client)
    }
    if (late.size === 0 || isAsking) return
    isAsking = true
    ask(config, late).catch(() => {}).finally(() => {
      isAsking = false
    })
  }

  async function ask (config: ClientConfig, late: Map<number, PoolClient>): Promise<void> {
    const before = new Map(Array.from(late.values(), (client) => [client, silentBytes(client)]))
    const running = await runningOf(config, [...late.keys()])
    await sleep(arrivalMs, undefined, { ref: false })
    // A busy process checks the clock before it reads data that has arrived meanwhile.
    await new Promise(setImmediate)
    for (const [process, client] of late) {
      const bytes = silentBytes(client)
      if (!running.has(process) && bytes !== null && bytes === before.get(client)) onLost(client)
    }
  }

  return () => clearInterval(timer)
}

/** The bytes of a connection so far while it waits for the database; null if it waits for nothing, or data waits to be read or sent. */
function silentBytes (client: object): number | null {
  if (!(client instanceof pg.Client)) return null
  const { stream } = client.connection
  // The time-out is set while a result is pending.
  if (!(stream instanceof Socket) || (stream.timeout ?? 0) === 0) return null
  const waits = !stream.isPaused() && stream.readableLength === 0 && stream.writableLength === 0
  return waits ? stream.bytesRead + stream.bytesWritten : null
}

/** Those processes that run a statement, or whose state the role may not see. Others wait for one, or do not exist. */
async function runningOf (config: ClientConfig, processes: readonly number[]): Promise<Set<number>> {
  const client = new pg.Client({ ...config, connectionTimeoutMillis: askMs, query_timeout: askMs })
  client.on('error', () => {})
  try {
    await client.connect()
    const { rows } = await client.query<{ pid: number }>(
      "select pid from pg_stat_activity where pid = any($1::int[]) and (state is null or state not like 'idle%')",
      [processes]
    )
    return new Set(rows.map(({ pid }) => pid))
  } finally {
    client.end().catch(() => {})
  }
}
