/** Uses of keys, counted in memory and written in batches, outside of requests. */
import type { Owner } from '../identity/tenant-ref.js'
import { createBatcher } from './batcher.js'

const maxBatch = 1000 // keys per statement

/** Uses of a tenant's key since the last write. */
export interface KeyUse {
  readonly tenant: Owner
  readonly key: string
  readonly count: number
  readonly lastAt: Date
}

export interface UseCounterOptions {
  /** The plural noun for the keys in the log, such as `secrets`. */
  readonly noun: string
  /** Milliseconds from the first unwritten use. */
  readonly flushAfter: number
  /** Keys with unwritten uses. Half of them begin a write at once; while writes fail, uses of further keys are not counted. */
  readonly maxKeys: number
  readonly write: (uses: readonly KeyUse[]) => Promise<void>
  readonly log: { warn(object: object, message: string): void }
}

export type UseCounter = ReturnType<typeof createUseCounter>

export function createUseCounter ({ noun, flushAfter, maxKeys, write, log }: UseCounterOptions) {
  let waiting = new Map<Owner, Map<string, { count: number, lastAt: number }>>()
  let size = 0
  let dropped = 0
  let timer: NodeJS.Timeout | undefined
  /** A flush because of the number of keys waits for a running write. */
  let isEarly = false
  /** The last write failed. */
  let isFailing = false
  let closed = false

  function add (tenant: Owner, key: string, count: number, at: number): void {
    let keys = waiting.get(tenant)
    const uses = keys?.get(key)
    if (uses !== undefined) {
      uses.count += count
      uses.lastAt = Math.max(uses.lastAt, at)
      return
    }
    if (size >= maxKeys) {
      dropped += count
      return
    }
    if (keys === undefined) waiting.set(tenant, keys = new Map())
    keys.set(key, { count, lastAt: at })
    size++
  }

  async function writeAll (): Promise<void> {
    clearTimeout(timer)
    timer = undefined
    isEarly = false
    if (size === 0) return
    const uses = [...waiting].flatMap(([tenant, keys]) =>
      [...keys].map(([key, { count, lastAt }]): KeyUse => ({ tenant, key, count, lastAt: new Date(lastAt) }))
    )
    waiting = new Map()
    size = 0
    let written = 0
    try {
      for (; written < uses.length; written += maxBatch) await write(uses.slice(written, written + maxBatch))
      if (dropped > 0) log.warn({ uses: dropped }, `uses of ${noun} were not counted: too many waited for the database`)
      dropped = 0
      isFailing = false
    } catch (err) {
      isFailing = true
      for (const { tenant, key, count, lastAt } of uses.slice(written)) add(tenant, key, count, lastAt.getTime())
      log.warn({ err }, `uses of ${noun} could not be written; they are kept`)
      schedule()
    }
  }

  function schedule (): void {
    if (closed || isEarly) return
    // After a failure the timer decides.
    if (isFailing || size < maxKeys / 2) {
      timer ??= setTimeout(flush, flushAfter).unref()
      return
    }
    isEarly = true
    flush()
  }

  /** Writes all uses until now, after any running write. A failure is logged and tried again; the promise resolves all the same. */
  const flush = createBatcher<void, void>(writeAll)

  return {
    /** @param at milliseconds since 1970 */
    count (tenant: Owner, key: string, at: number): void {
      add(tenant, key, 1, at)
      schedule()
    },
    /** The last unwritten use, in milliseconds since 1970. */
    lastUse: (tenant: Owner, key: string): number | undefined => waiting.get(tenant)?.get(key)?.lastAt,
    flush,
    /** Writes the rest, and starts no timer. */
    close (): Promise<void> {
      closed = true
      return flush()
    }
  }
}
