/**
 * Detects a database that accepts connections but does not respond: a frozen machine, a stalled disk, a network that drops packets. A slow
 * statement is not such a sign. Therefore the server sends `select 1` on a separate connection if no statement ends.
 */
import type { ClientConfig } from 'pg'
import pg from 'pg'
import { settlesWithin } from '../concurrency/with-timeout.js'

const checkMs = 250 // ms without the end of any statement, while some are running
const probeMs = 1000 // ms for `select 1`, as for /health
const endAfter = 2 // failed probes until running statements are ended: they survive a short stall

export interface HangWatchParts {
  /** The options of the probe's connection; undefined if the database runs in this process. */
  readonly connection: ClientConfig | undefined
  /** Whether statements are running, or wait for a connection. */
  readonly isBusy: () => boolean
  /** The number of statements that have ended so far. */
  readonly ended: () => number
  /** The database has begun to hang: waiting statements are rejected. */
  readonly onHang: () => void
  /** It still hangs: running statements are ended. */
  readonly onLongHang: () => void
  readonly onResponse: () => void
}

export interface HangWatch {
  /** The database is known to hang. */
  readonly hangs: boolean
  close(): void
}

export function createHangWatch ({ connection, isBusy, ended, onHang, onLongHang, onResponse }: HangWatchParts): HangWatch {
  const closed = new AbortController()
  let hangs = false
  let probing = false
  let last = -1
  let client: pg.Client | null = null
  const timer = connection === undefined ? undefined : setInterval(check, checkMs, connection).unref()

  function check (config: ClientConfig): void {
    if (probing) return
    const count = ended()
    const moves = !isBusy() || count !== last
    last = count
    if (moves) return drop()
    probing = true
    probe(config).finally(() => {
      probing = false
    }).catch(() => {})
  }

  /** Ends with the first response. */
  async function probe (config: ClientConfig): Promise<void> {
    for (let missed = 0; !await isResponding(config);) {
      drop()
      if (closed.signal.aborted) return
      missed++
      if (missed === 1) {
        hangs = true
        onHang()
      }
      if (missed === endAfter) onLongHang()
    }
    if (!hangs) return
    hangs = false
    onResponse()
  }

  /**
   * Whether the database responds in time. Connecting starts a process of the database and has the same time again. An error is a
   * response too: statements will fail with it at once.
   */
  async function isResponding (config: ClientConfig): Promise<boolean> {
    const own = client ?? new pg.Client(config)
    const withinMs = client === null ? 2 * probeMs : probeMs
    let settled = false
    const response = ask(own).catch(() => {
      if (client === own) drop()
    }).finally(() => {
      settled = true
    })
    if (await settlesWithin(response, withinMs)) return true
    // After a busy event loop, the timer fires before a response that has already arrived.
    await new Promise(setImmediate)
    return settled
  }

  async function ask (own: pg.Client): Promise<void> {
    if (client !== own) {
      client = own
      own.on('error', () => {})
      await own.connect()
    }
    await own.query('select 1')
  }

  function drop (): void {
    const own = client
    client = null
    // The connection may hang, so it is not closed in order.
    own?.connection.stream.destroy()
  }

  return {
    get hangs () {
      return hangs
    },
    close () {
      closed.abort()
      clearInterval(timer)
      drop()
    }
  }
}
