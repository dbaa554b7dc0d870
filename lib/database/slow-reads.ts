/**
 * Reads of a tenant that run much longer than the statements of another tenant keep the processors of the database busy. While
 * the other tenant uses the database, few of them run at a time. Writes wait for disks and locks too: they do not count.
 */
import { serverRef, type TenantRef } from '../identity/tenant-ref.js'
import { FairSemaphore, type Party } from '../concurrency/fair-semaphore.js'
import { databaseBusy } from './failures.js'

const slowMs = 20 // a shorter statement is not slow
const quickMs = 5 // only shorter runs make a slow statement forgotten: alone it may take less than beside others
const slower = 4 // and neither is one of less than so many times the time of the other tenant's statements
const weight = 0.1 // of a statement in the mean time of its tenant
const besideMs = 250 // after a statement, its tenant counts as one that uses the database
const remembered = 20 // quick runs after which a statement is no longer slow
const maxSlow = 1000 // statements of a tenant
const connectionsPerRead = 8 // one slow read at a time for each so many connections

interface SlowTenant {
  readonly gate: FairSemaphore
  /** How many quick runs each statement may have until it is forgotten. */
  readonly statements: Map<string, number>
}

/** A tenant whose statements ended last. */
interface Recent {
  tenant: TenantRef
  /** Mean of its statements, in milliseconds. */
  ms: number
  at: number
}

/** A started statement: the place that it has, or null where it needs none. */
export type Place = Party | null

export class SlowReads {
  readonly #atOnce: number
  readonly #timeoutMs: number
  readonly #now: () => number
  readonly #tenants = new Map<TenantRef, SlowTenant>()
  #last: Recent = { tenant: serverRef, ms: 0, at: -Infinity }
  #other: Recent = { tenant: serverRef, ms: 0, at: -Infinity }

  /** `connections`: of the pool; `timeoutMs`: how long a read waits. */
  constructor (connections: number, timeoutMs: number, now: () => number = () => performance.now()) {
    this.#atOnce = Math.max(1, Math.floor(connections / connectionsPerRead))
    this.#timeoutMs = timeoutMs
    this.#now = now
  }

  /** Calls `start` when the statement may run, or `refused` when that took too long. Each start ends with `ended` or `leave`. */
  enter (tenant: TenantRef, text: string, start: (place: Place) => void, refused: () => void): void {
    const slow = this.#tenants.size === 0 ? undefined : this.#tenants.get(tenant)
    if (slow === undefined || !slow.statements.has(text) || !this.#isBeside(tenant, this.#now())) return start(null)
    slow.gate.acquire(tenant, start, refused)
  }

  /** Runs the statement when it may run; rejects with `databaseBusy` when that took too long. */
  async run<T> (tenant: TenantRef, text: string, statement: () => Promise<T>): Promise<T> {
    const place = await new Promise<Place>((resolve, reject) => this.enter(tenant, text, resolve, () => reject(databaseBusy())))
    const began = this.#now()
    try {
      return await statement()
    } finally {
      this.ended(tenant, text, this.#now() - began, place)
    }
  }

  /** The statement has ended, after so many milliseconds. */
  ended (tenant: TenantRef, text: string, ms: number, place: Place): void {
    const now = this.#now()
    const other = this.#heard(tenant, ms, now)
    if (ms >= slowMs) {
      if (tenant !== serverRef && ms >= slower * other.ms && now - other.at <= besideMs && isRead(text)) this.#remember(tenant, text)
    } else if (ms < quickMs && this.#tenants.size > 0) this.#forget(tenant, text)
    this.leave(tenant, place)
  }

  leave (tenant: TenantRef, place: Place): void {
    if (place !== null) this.#tenants.get(tenant)?.gate.release(place)
  }

  close (): void {
    for (const { gate } of this.#tenants.values()) gate.close()
  }

  /** Returns the other tenant. The server's own statements are no reason to hold up a tenant. */
  #heard (tenant: TenantRef, ms: number, now: number): Recent {
    if (tenant === serverRef) return this.#other
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

  #isBeside (tenant: TenantRef, now: number): boolean {
    const other = this.#last.tenant === tenant ? this.#other : this.#last
    return now - other.at <= besideMs
  }

  #remember (tenant: TenantRef, text: string): void {
    let slow = this.#tenants.get(tenant)
    if (slow === undefined) {
      slow = { gate: new FairSemaphore(this.#atOnce, this.#timeoutMs, false), statements: new Map() }
      this.#tenants.set(tenant, slow)
    }
    if (slow.statements.size < maxSlow) slow.statements.set(text, remembered)
  }

  #forget (tenant: TenantRef, text: string): void {
    const statements = this.#tenants.get(tenant)?.statements
    const left = statements?.get(text)
    if (statements === undefined || left === undefined) return
    if (left > 1) statements.set(text, left - 1)
    else statements.delete(text)
  }
}

function isRead (text: string): boolean {
  return text.startsWith('select') && !/\bfor (?:no key )?update\b/.test(text)
}
