/** Uses of values, counted in memory and written in batches, outside of requests. */
import type { FastifyBaseLogger } from 'fastify'
import { together } from '../../lib/concurrency/batcher.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { Access } from './store.js'

const flushAfter = 3000 // ms from the first unwritten use
const maxKeys = 50_000 // keys with unwritten uses; while the database is unreachable, uses of other keys are not counted
const maxBatch = 1000 // keys per statement

export interface AccessCounter {
  count(tenant: Owner, key: string, at: number): void
  /** Writes all counts until now. A failure is logged and tried again; the promise resolves all the same. */
  flush(): Promise<void>
  /** Writes the remaining counts, and starts no timer. */
  close(): Promise<void>
}

interface Uses {
  count: number
  lastAt: number
}

export function createAccessCounter (write: (accesses: readonly Access[]) => Promise<void>, log: FastifyBaseLogger): AccessCounter {
  let waiting = new Map<Owner, Map<string, Uses>>()
  let size = 0
  let dropped = 0
  let timer: NodeJS.Timeout | undefined
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
    if (size === 0) return
    const accesses = [...waiting].flatMap(([tenant, keys]) =>
      [...keys].map(([key, { count, lastAt }]): Access => ({ tenant, key, count, lastAt: new Date(lastAt) }))
    )
    waiting = new Map()
    size = 0
    let written = 0
    try {
      for (; written < accesses.length; written += maxBatch) await write(accesses.slice(written, written + maxBatch))
      if (dropped > 0) log.warn({ accesses: dropped }, 'uses of secrets were not counted: too many waited for the database')
      dropped = 0
    } catch (err) {
      for (const { tenant, key, count, lastAt } of accesses.slice(written)) add(tenant, key, count, lastAt.getTime())
      log.warn({ err }, 'uses of secrets could not be written; they are kept')
      schedule()
    }
  }

  function schedule (): void {
    if (closed) return
    timer ??= setTimeout(flush, flushAfter).unref()
  }

  // A concurrent write does not contain counts made since it began.
  const flush = together<void, void>(writeAll)

  return {
    count (tenant, key, at) {
      add(tenant, key, 1, at)
      schedule()
    },
    flush,
    close () {
      closed = true
      return flush()
    }
  }
}
