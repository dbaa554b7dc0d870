/**
 * Limits slow reads. Reads of a tenant that run much longer than the statements of another tenant keep the database's processors
 * busy. While the other tenant uses the database, few of them run at a time. The first runs of a tenant's reads begin one at a time.
 * Writes also wait for disks and locks, so they are never limited. Their times are known too: others may wait behind a short write.
 */
import { LRUCache } from 'lru-cache'
import { FairSemaphore } from '../concurrency/fair-semaphore.js'
import { serverRef, type TenantRef } from '../identity/tenant-ref.js'
import type { Statement } from './engine.js'
import { databaseBusy } from './failures.js'

const slowMs = 20 // ms; a shorter statement is not slow
const quickMs = 5 // ms; only shorter runs count as quick, because a slow statement may take less time alone than beside others
const shortMs = 2 // ms; a shorter statement is short, so others may wait behind it
const slower = 4 // a slow statement takes at least this many times the mean of the other tenant's statements
const weight = 0.1 // of a new value in a moving average
const besideMs = 250 // ms after a statement in which its tenant counts as using the database
const remembered = 20 // quick runs until a statement is no longer slow
const rememberedMs = 30_000 // ms without a slow run until a statement is no longer slow, since some never run quickly
const maxBytes = 67_108_864 // of known statements of all tenants
const maxBytesOfTenant = 1_048_576
const bytesOfTenant = 1024 // without its statements
const bytesOfStatement = 150 // besides its text
const connectionsPerRead = 8 // pool connections per slow read that may run at a time

/** The places of reads that run at a time. */
class Places {
  readonly slow: FairSemaphore
  /** For first runs. */
  readonly first: FairSemaphore

  constructor (atOnce: number, timeoutMs: number) {
    this.slow = new FairSemaphore(atOnce, timeoutMs, { keepsFree: false })
    this.first = new FairSemaphore(1, timeoutMs, { keepsFree: false })
  }
}

/** A statement that the tenant has run. */
interface Known {
  readonly isRead: boolean
  /** The remaining quick runs until it is no longer slow; 0 if it is not, and for writes. */
  quickRuns: number
  /** The end of its last slow run. */
  slowAt: number
  /** The moving average of its time alone on a connection, in milliseconds. */
  ms: number
}

class TenantReads {
  readonly known = new Map<string, Known>()
  bytes = bytesOfTenant
  readonly single: Places
  /**
   * The places of reads in transactions. Such a read holds a connection while it waits for a place, and a single read holds a place while
   * it waits for a connection: with the same places they would wait for each other.
   */
  readonly within: Places

  constructor (atOnce: number, timeoutMs: number) {
    this.single = new Places(atOnce, timeoutMs)
    this.within = new Places(atOnce, timeoutMs)
  }

  /** The quick runs until the statement is no longer slow; undefined if it is not known. */
  quickRunsOf (text: string, now: () => number): number | undefined {
    const known = this.known.get(text)
    if (known !== undefined && known.quickRuns > 0 && now() - known.slowAt > rememberedMs) known.quickRuns = 0
    return known?.quickRuns
  }

  add ({ text, isRead = false }: Statement): Known {
    const added = { isRead, quickRuns: 0, slowAt: -Infinity, ms: shortMs }
    this.known.set(text, added)
    this.bytes += bytesOf(text)
    for (const oldest of this.known.keys()) {
      if (this.bytes <= maxBytesOfTenant) break
      this.known.delete(oldest)
      this.bytes -= bytesOf(oldest)
    }
    return added
  }
}

/** One of the two tenants with the latest statements. */
interface Recent {
  tenant: TenantRef
  /** The moving average of its statements, in milliseconds. */
  ms: number
  at: number
}

/** The place of a statement that may start; null if it needs none. */
export type Place = {
  /** The statement runs. */
  began(): void
  leave(): void
} | null

export class SlowReads {
  readonly #atOnce: number
  readonly #timeoutMs: number
  readonly #now: () => number
  readonly #tenants = new LRUCache<TenantRef, TenantReads>({ maxSize: maxBytes, sizeCalculation: ({ bytes }) => bytes })
  #last: Recent = { tenant: serverRef, ms: 0, at: -Infinity }
  #other: Recent = { tenant: serverRef, ms: 0, at: -Infinity }

  /** `connections`: the size of the pool; `timeoutMs`: the longest wait of a read. */
  constructor (connections: number, timeoutMs: number, now: () => number = () => performance.now()) {
    this.#atOnce = Math.max(1, Math.floor(connections / connectionsPerRead))
    this.#timeoutMs = timeoutMs
    this.#now = now
  }

  /** The bytes of known statements, of all tenants. */
  get bytes (): number {
    return this.#tenants.calculatedSize
  }

  /** Calls `start` when the statement may run, or `refused` after the timeout. After each start comes `ended`, or `leave` of the place. */
  enter (
    tenant: TenantRef,
    statement: Statement,
    start: (place: Place) => void,
    refused: () => void,
    kind: 'single' | 'within' = 'single'
  ): void {
    if (tenant === serverRef) return start(null)
    const { text, isRead } = statement
    const reads = this.#readsOf(tenant)
    const { slow, first } = reads[kind]
    const quickRuns = reads.quickRunsOf(text, this.#now)
    if (quickRuns === 0 || (quickRuns === undefined && isRead !== true)) return start(null)
    if (quickRuns !== undefined) {
      if (!this.#isBeside(tenant, this.#now())) return start(null)
      return slow.acquire(tenant, (account) => start({ began () {}, leave: () => slow.release(account) }), refused)
    }
    first.acquire(tenant, (account) => {
      if (!reads.known.has(text)) return start(this.#firstRun(tenant, statement, () => first.release(account)))
      // Not at once: each of the waiting runs would release its place within the release of the one before.
      queueMicrotask(() => first.release(account))
      this.enter(tenant, statement, start, refused, kind)
    }, refused)
  }

  /** Whether a statement that needed no place needs one now. It may have become slow while it waited for a connection. */
  needsPlace (tenant: TenantRef, { text }: Statement): boolean {
    const quickRuns = this.#tenants.get(tenant)?.quickRunsOf(text, this.#now)
    return quickRuns !== undefined && quickRuns > 0 && this.#isBeside(tenant, this.#now())
  }

  /** Whether the statement takes less than two milliseconds on average. */
  isShort (tenant: TenantRef, { text }: Statement): boolean {
    return (this.#tenants.get(tenant)?.known.get(text)?.ms ?? shortMs) < shortMs
  }

  /** Whether the read may have to wait for a place. */
  limits (tenant: TenantRef, { text, isRead }: Statement): boolean {
    return tenant !== serverRef && isRead === true && this.#tenants.get(tenant)?.quickRunsOf(text, this.#now) !== 0
  }

  /** Runs the statement of a transaction when it may run; rejects with `databaseBusy` after the timeout. */
  async run<T> (tenant: TenantRef, statement: Statement, send: () => Promise<T>): Promise<T> {
    const place = await new Promise<Place>((resolve, reject) => this.enter(tenant, statement, resolve, () => reject(databaseBusy()), 'within'))
    const began = this.#now()
    place?.began()
    try {
      return await send()
    } finally {
      this.ended(tenant, statement, this.#now() - began, place)
    }
  }

  /** The statement has ended after `ms` milliseconds. `follows`: it was sent behind another one, which makes it seem shorter. */
  ended (tenant: TenantRef, statement: Statement, ms: number, place: Place, follows = false): void {
    if (tenant !== serverRef) {
      const now = this.#now()
      const isSlow = this.#isSlow(ms, this.#heard(tenant, ms, now), now)
      const known = this.#knownOf(tenant, statement)
      if (!follows) known.ms += weight * (ms - known.ms)
      if (isSlow) markSlow(known, now)
      else if (known.quickRuns > 0 && ms < quickMs) known.quickRuns--
    }
    place?.leave()
  }

  close (): void {
    for (const { single, within } of this.#tenants.values()) {
      for (const { slow, first } of [single, within]) {
        slow.close()
        first.close()
      }
    }
  }

  /** The place of a first run. A run that turns out to be slow gives it to the next one. */
  #firstRun (tenant: TenantRef, statement: Statement, release: () => void): Place {
    let timer: NodeJS.Timeout | undefined
    let isHeld = true
    const leave = () => {
      clearTimeout(timer)
      if (isHeld) release()
      isHeld = false
    }
    return {
      began: () => {
        const began = this.#now()
        timer = setTimeout(() => {
          const now = this.#now()
          if (this.#isSlow(now - began, this.#otherThan(tenant), now)) markSlow(this.#knownOf(tenant, statement), now)
          leave()
        }, slowMs)
      },
      leave
    }
  }

  #readsOf (tenant: TenantRef): TenantReads {
    let reads = this.#tenants.get(tenant)
    if (reads === undefined) this.#tenants.set(tenant, reads = new TenantReads(this.#atOnce, this.#timeoutMs))
    return reads
  }

  #knownOf (tenant: TenantRef, statement: Statement): Known {
    const reads = this.#readsOf(tenant)
    const known = reads.known.get(statement.text)
    if (known !== undefined) return known
    const added = reads.add(statement)
    // The cache takes the new size of a new entry only. It forgets the tenants whose statements are the longest ago.
    this.#tenants.delete(tenant)
    this.#tenants.set(tenant, reads)
    return added
  }

  #isSlow (ms: number, other: Recent, now: number): boolean {
    return ms >= slowMs && ms >= slower * other.ms && now - other.at <= besideMs
  }

  /** Updates the tenant's average and returns the other tenant. */
  #heard (tenant: TenantRef, ms: number, now: number): Recent {
    if (this.#last.tenant !== tenant) {
      [this.#last, this.#other] = [this.#other, this.#last]
      if (this.#last.tenant !== tenant) {
        this.#last.tenant = tenant
        this.#last.ms = ms
      }
    }
    this.#last.ms += weight * (ms - this.#last.ms)
    this.#last.at = now
    return this.#other
  }

  #otherThan (tenant: TenantRef): Recent {
    return this.#last.tenant === tenant ? this.#other : this.#last
  }

  #isBeside (tenant: TenantRef, now: number): boolean {
    return now - this.#otherThan(tenant).at <= besideMs
  }
}

function markSlow (known: Known, now: number): void {
  if (!known.isRead) return
  known.quickRuns = remembered
  known.slowAt = now
}

function bytesOf (text: string): number {
  return bytesOfStatement + text.length
}
