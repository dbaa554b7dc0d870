/**
 * Counted requests that are not written yet: summed by hour, tenant and line, and written by time and number, outside of requests. A batch
 * with an unknown outcome is written again unchanged, under its number.
 */
import type { FastifyBaseLogger } from 'fastify'
import { TenantryError } from '../../lib/errors.js'
import { platformRef, type TenantLife } from '../../lib/identity/tenant-ref.js'
import { hourMs } from '../../lib/time/spans.js'
import { bucketOf, type Line, otherRoutes, RouteLines } from './lines.js'

const maxWaiting = 20_000 // waiting sums; further requests are not counted while the database is unreachable
const maxOfTenant = 200 // waiting sums of one tenant and hour; others are under `otherRoutes`
const maxBatch = 1000 // sums in a statement
const [shortestPause, longestPause] = [1000, 30_000] // ms after a failure
const maxRefusals = 3 // times that a reachable database may refuse a batch

/** A tenant, apart from earlier and later ones of its id; empty for requests without a tenant. */
export type CountedTenant = TenantLife | typeof platformRef

/** Requests of one tenant and line in one hour. */
export interface Sum {
  readonly tenant: CountedTenant
  readonly line: Line
  /** The number of requests in each bucket of the histogram. */
  readonly buckets: ReadonlyMap<number, number>
}

export interface Batch {
  /** Counts the batches of this process. */
  readonly number: number
  /** The beginning of its hour, in milliseconds since 1970. */
  readonly hour: number
  readonly sums: readonly Sum[]
}

export interface BufferOptions {
  /** Writes a batch exactly once, even if it is called repeatedly. */
  readonly write: (batch: Batch) => Promise<void>
  readonly log: FastifyBaseLogger
  /** The clock, in milliseconds since 1970. */
  readonly now: () => number
  /** Milliseconds from the first unwritten request. */
  readonly flushInterval: number
  /** The number of requests that triggers an earlier write. */
  readonly maxSize: number
  /** The least number of milliseconds between the beginnings of two such flushes, unless there are many sums. */
  readonly pause: number
}

export type RequestBuffer = ReturnType<typeof createBuffer>

type Buckets = Map<number, number>
type Sums = Map<string, { readonly line: Line, readonly buckets: Buckets }>

const others = new RouteLines(otherRoutes)

export function createBuffer ({ write, log, now, flushInterval, maxSize, pause }: BufferOptions) {
  /** By hour and tenant. */
  const hours = new Map<number, Map<CountedTenant, Sums>>()
  let current = new Map<CountedTenant, Sums>()
  let start = Number.NaN
  /** Sums that wait. */
  let size = 0
  /** Requests since the last flush began. */
  let requests = 0
  let dropped = 0
  let batches = 0
  /** The batch that is being written, or whose write failed. */
  let pending: Batch | undefined
  let failures = 0
  let timer: NodeJS.Timeout | undefined
  /** The timer belongs to an early flush. */
  let isEarly = false
  /** The beginning of the last flush, by the process's own clock. */
  let begun = -Infinity
  /** Flushes that wait for their turn. */
  let queued = 0
  let closed = false
  let last: Promise<void> = Promise.resolve()

  /** The hour has changed. */
  function turnTo (at: number): void {
    start = Math.floor(at / hourMs) * hourMs
    current = hours.get(start) ?? new Map<CountedTenant, Sums>()
    hours.set(start, current)
  }

  /** The histogram of a new line, or of its tenant's other lines; undefined without room. */
  function added (tenant: CountedTenant, line: Line): Buckets | undefined {
    const sums = current.get(tenant) ?? new Map<string, { line: Line, buckets: Buckets }>()
    const kept = tenant !== platformRef && sums.size >= maxOfTenant ? others.of(line.method, line.status) : line
    const known = sums.get(kept.key)
    if (known !== undefined) return known.buckets
    if (size >= maxWaiting) return undefined
    const buckets: Buckets = new Map()
    sums.set(kept.key, { line: kept, buckets })
    current.set(tenant, sums)
    size++
    return buckets
  }

  /** Takes the next sums, of one hour, from those that wait. */
  function take (): Batch | undefined {
    for (const [begin, tenants] of hours) {
      const sums: Sum[] = []
      for (const [tenant, own] of tenants) {
        for (const [key, { line, buckets }] of own) {
          if (sums.length === maxBatch) break
          sums.push({ tenant, line, buckets })
          own.delete(key)
        }
        if (own.size > 0) break
        tenants.delete(tenant)
      }
      if (tenants.size === 0 && begin !== start) hours.delete(begin)
      size -= sums.length
      if (sums.length > 0) return { number: ++batches, hour: begin, sums }
    }
    return undefined
  }

  async function writeAll (): Promise<void> {
    queued--
    requests = 0
    begun = performance.now()
    end()
    // Later counts are not awaited.
    for (let left = size + (pending?.sums.length ?? 0); left > 0;) {
      pending ??= take()
      if (pending === undefined) break
      left -= pending.sums.length
      try {
        await write(pending)
      } catch (error) {
        failed(error, pending)
        return
      }
      pending = undefined
      if (dropped > 0) log.warn({ requests: dropped }, 'requests are missing in the analytics: too many waited for the database')
      else if (failures > 0) log.info('the analytics of requests are written again')
      failures = 0
      dropped = 0
    }
    if (isDue()) flushEarly()
    else if (size > 0) schedule(flushInterval)
  }

  function failed (err: unknown, batch: Batch): void {
    failures++
    if (failures === 1) log.warn({ err }, 'the analytics of requests could not be written; they are kept in memory')
    // A refused batch would block all later ones.
    if (failures >= maxRefusals && !(err instanceof TenantryError && err.statusCode === 503)) {
      log.error({ err, requests: requestsIn(batch.sums) }, 'requests are missing in the analytics: the database rejects them')
      pending = undefined
    }
    end()
    schedule(Math.min(Math.max(flushInterval, shortestPause), longestPause))
  }

  function isDue (): boolean {
    return requests >= maxSize || size >= maxBatch
  }

  /** There is enough for an early flush. After a failure the timer decides. */
  function flushEarly (): void {
    if (queued > 0 || failures > 0 || closed || (isEarly && size < maxBatch)) return
    const wait = size >= maxBatch ? 0 : begun + pause - performance.now()
    if (wait <= 0) {
      flush()
      return
    }
    end()
    isEarly = true
    schedule(wait)
  }

  function schedule (ms: number): void {
    if (!closed) timer ??= setTimeout(flush, ms).unref()
  }

  function end (): void {
    clearTimeout(timer)
    timer = undefined
    isEarly = false
  }

  /** Writes the counts so far; a failure is logged and repeated, and does not reject. */
  function flush (): Promise<void> {
    queued++
    // One at a time.
    last = last.then(writeAll)
    return last
  }

  return {
    /** `ms`: the duration of the request. */
    count (tenant: CountedTenant, line: Line, ms: number): void {
      const at = now()
      if (!(at >= start && at < start + hourMs)) turnTo(at)
      const buckets = current.get(tenant)?.get(line.key)?.buckets ?? added(tenant, line)
      if (buckets === undefined) {
        dropped++
        return
      }
      const bucket = bucketOf(ms)
      buckets.set(bucket, (buckets.get(bucket) ?? 0) + 1)
      requests++
      if (isDue()) flushEarly()
      else if (timer === undefined) schedule(flushInterval)
    },
    flush,
    /** Writes the remaining counts, and starts no further flush. */
    async close (): Promise<void> {
      closed = true
      await flush()
      let lost = dropped + (pending === undefined ? 0 : requestsIn(pending.sums))
      for (let batch = take(); batch !== undefined; batch = take()) lost += requestsIn(batch.sums)
      if (lost > 0) {
        log.error({ requests: lost }, 'requests are missing in the analytics: the server stopped while the database could not be reached')
      }
    }
  }
}

function requestsIn (sums: readonly Sum[]): number {
  let requests = 0
  for (const { buckets } of sums) for (const count of buckets.values()) requests += count
  return requests
}
