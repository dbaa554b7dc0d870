/**
 * Requests that were counted and are not written yet: summed up by hour, tenant and line, written by time and by number,
 * off the way of requests. A batch whose fate is not known is written again as it was, under its number.
 */
import { platformRef, type Owner } from '../../lib/identity/tenant-ref.js'
import type { FastifyBaseLogger } from 'fastify'
import type { Line } from './lines.js'
import { hourMs } from '../../lib/time/spans.js'
import { TenantryError } from '../../lib/errors.js'
import { bucketOf } from './histogram.js'
import { otherRoutes, RouteLines } from './lines.js'

const maxWaiting = 20_000 // sums that wait at most; requests beyond are not counted while the database cannot be reached
const maxOfTenant = 200 // sums of one tenant and hour that wait at most; others are under `otherRoutes`
const maxBatch = 1000 // sums a statement
const [shortestPause, longestPause] = [1000, 30_000] // ms after a failure
const maxRefusals = 3 // times that the database may refuse a batch, though it can be reached

/** Requests of one tenant and line in one hour. */
export interface Sum {
  /** Empty for requests of no tenant. */
  readonly tenant: Owner
  readonly line: Line
  /** How many there are in each bucket of the histogram. */
  readonly buckets: ReadonlyMap<number, number>
}

export interface Batch {
  /** Counts the batches of this process. */
  readonly number: number
  /** When its hour began, in milliseconds since 1970. */
  readonly hour: number
  readonly sums: readonly Sum[]
}

export interface BufferOptions {
  /** Writes a batch, once however often it is called with it. */
  readonly write: (batch: Batch) => Promise<void>
  readonly log: FastifyBaseLogger
  /** The clock, in milliseconds since 1970. */
  readonly now: () => number
  /** Milliseconds from the first request that is not written yet. */
  readonly flushInterval: number
  /** Requests: as many as this are written before their time. */
  readonly maxSize: number
  /** Milliseconds that lie at least between the beginnings of two such flushes, unless there are many sums. */
  readonly pause: number
}

export interface RequestBuffer {
  /** The tenant is empty for a request of none; `ms` is how long it took. */
  count(tenant: Owner, line: Line, ms: number): void
  /** Writes what was counted until now; resolves also where that failed, which is logged and tried again. */
  flush(): Promise<void>
  /** Writes what there is, and begins nothing anew. */
  close(): Promise<void>
}

type Buckets = Map<number, number>
type Sums = Map<string, { readonly line: Line, readonly buckets: Buckets }>

const others = new RouteLines(otherRoutes)

export function createBuffer ({ write, log, now, flushInterval, maxSize, pause }: BufferOptions): RequestBuffer {
  /** By hour and tenant. */
  const hours = new Map<number, Map<Owner, Sums>>()
  let current = new Map<Owner, Sums>()
  let start = Number.NaN
  /** Sums that wait. */
  let size = 0
  /** Requests since the last flush began. */
  let requests = 0
  let dropped = 0
  let batches = 0
  /** The batch that is being written, or that could not be. */
  let pending: Batch | undefined
  let failures = 0
  let timer: NodeJS.Timeout | undefined
  /** The timer is that of a flush before its time. */
  let hastened = false
  /** When the last flush began, by the process's own clock. */
  let begun = -Infinity
  /** Flushes that wait for their turn. */
  let queued = 0
  let closed = false
  let last: Promise<void> = Promise.resolve()

  /** The clock has come to another hour. */
  function turnTo (at: number): void {
    start = Math.floor(at / hourMs) * hourMs
    current = hours.get(start) ?? new Map<Owner, Sums>()
    hours.set(start, current)
  }

  /** The histogram of a line that is not there yet, or of the others of its tenant; undefined where there is no room. */
  function added (tenant: Owner, line: Line): Buckets | undefined {
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

  /** Takes the next sums, of one hour, out of what waits. */
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
    // What comes meanwhile is not waited for.
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
      succeeded()
    }
    if (isDue()) hasten()
    else if (size > 0) schedule(flushInterval)
  }

  function succeeded (): void {
    pending = undefined
    if (dropped > 0) log.warn({ requests: dropped }, 'requests are missing in the figures: too many waited for the database')
    else if (failures > 0) log.info('figures of requests are written again')
    failures = 0
    dropped = 0
  }

  function failed (err: unknown, batch: Batch): void {
    failures++
    if (failures === 1) log.warn({ err }, 'figures of requests could not be written; they are kept')
    // What the database refuses for itself would keep back all that comes after it.
    if (failures >= maxRefusals && !(err instanceof TenantryError && err.statusCode === 503)) {
      log.error({ err, requests: requestsIn(batch.sums) }, 'requests are missing in the figures: the database refuses them')
      pending = undefined
    }
    end()
    schedule(Math.min(Math.max(flushInterval, shortestPause), longestPause))
  }

  function isDue (): boolean {
    return requests >= maxSize || size >= maxBatch
  }

  /** Enough waits to be written before its time. After a failure it is the timer's turn. */
  function hasten (): void {
    if (queued > 0 || failures > 0 || closed || (hastened && size < maxBatch)) return
    const wait = size >= maxBatch ? 0 : begun + pause - performance.now()
    if (wait <= 0) {
      flush()
      return
    }
    end()
    hastened = true
    schedule(wait)
  }

  function schedule (ms: number): void {
    if (!closed) timer ??= setTimeout(flush, ms).unref()
  }

  function end (): void {
    clearTimeout(timer)
    timer = undefined
    hastened = false
  }

  function flush (): Promise<void> {
    queued++
    // One at a time.
    last = last.then(writeAll)
    return last
  }

  return {
    count (tenant, line, ms) {
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
      if (isDue()) hasten()
      else if (timer === undefined) schedule(flushInterval)
    },
    flush,
    async close () {
      closed = true
      await flush()
      let lost = dropped + (pending === undefined ? 0 : requestsIn(pending.sums))
      for (let batch = take(); batch !== undefined; batch = take()) lost += requestsIn(batch.sums)
      if (lost > 0) {
        log.error({ requests: lost }, 'requests are missing in the figures: the server stopped while the database could not be reached')
      }
    }
  }
}

function requestsIn (sums: readonly Sum[]): number {
  let requests = 0
  for (const { buckets } of sums) for (const count of buckets.values()) requests += count
  return requests
}
