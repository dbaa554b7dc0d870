/** Detects a database that does not respond. */
import type { ClientConfig } from 'pg'
import { Probe } from './probe.js'

const checkMs = 250 // ms without the end of any statement, while some are running
const endAfter = 2 // failed probes until running statements are ended: they survive a short stall

interface HangWatchParts {
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

/**
 * Detects a database that accepts connections but does not respond: a frozen machine, a stalled disk, a network that drops packets. A slow
 * statement is not such a sign. Therefore the server sends `select 1` on a separate connection if no statement ends. Returns a function
 * that ends the watch.
 */
export function watchHangs ({ connection, isBusy, ended, onHang, onLongHang, onResponse }: HangWatchParts): () => void {
  const closed = new AbortController()
  let hangs = false
  let probing = false
  let last = -1
  let probe: Probe | null = null
  const timer = connection === undefined ? undefined : setInterval(check, checkMs, connection).unref()

  function check (config: ClientConfig): void {
    if (probing) return
    const count = ended()
    const moves = !isBusy() || count !== last
    last = count
    if (moves) return drop()
    probing = true
    probeUntilResponse(config).finally(() => {
      probing = false
    }).catch(() => {})
  }

  /** Ends with the first response. */
  async function probeUntilResponse (config: ClientConfig): Promise<void> {
    for (let missed = 0; !await (probe ??= new Probe(config)).isResponding();) {
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

  function drop (): void {
    probe?.close()
    probe = null
  }

  return () => {
    closed.abort()
    clearInterval(timer)
    drop()
  }
}
