/**
 * Notices a database that takes connections and answers nothing: a frozen machine, a stalled disk, a network that drops
 * packets. A slow statement is no such sign, so a connection of its own is asked `select 1` where nothing else moves.
 */
import type { ClientConfig } from 'pg'
import pg from 'pg'
import { settlesWithin } from '../concurrency/with-timeout.js'

const checkMs = 250 // without the end of any statement, while some are under way
const probeMs = 1000 // that the database has to answer `select 1`, as for /health
const endAfter = 2 // probes without an answer, after which statements under way are ended: a short stall is not to cost them

export interface HangWatchParts {
  /** Of the probe's connection; undefined where the database lives in this process. */
  readonly connection: ClientConfig | undefined
  /** Whether statements are under way, or wait for a connection. */
  readonly isBusy: () => boolean
  /** A number that grows with each statement that ends. */
  readonly ended: () => number
  /** The database has begun to hang: what waits is refused. */
  readonly onHang: () => void
  /** It still hangs: what is under way is ended. */
  readonly onLongHang: () => void
  /** It answers again. */
  readonly onAnswer: () => void
}

export interface HangWatch {
  /** The database is known to answer nothing. */
  readonly hangs: boolean
  close(): void
}

export function createHangWatch ({ connection, isBusy, ended, onHang, onLongHang, onAnswer }: HangWatchParts): HangWatch {
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

  /** Ends with the first answer. */
  async function probe (config: ClientConfig): Promise<void> {
    for (let missed = 0; !await isAnswered(config);) {
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
    onAnswer()
  }

  /**
   * Whether there is an answer in time; connecting, which starts a process of the database, has as long again. An error is
   * an answer too: what it is about, statements find out by themselves, and at once.
   */
  async function isAnswered (config: ClientConfig): Promise<boolean> {
    const own = client ?? new pg.Client(config)
    const withinMs = client === null ? 2 * probeMs : probeMs
    let settled = false
    const answer = ask(own).catch(() => {
      if (client === own) drop()
    }).finally(() => {
      settled = true
    })
    if (await settlesWithin(answer, withinMs)) return true
    // After a busy event loop the timer comes before an answer that has arrived.
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
    // It may hang: nothing waits for a farewell.
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
