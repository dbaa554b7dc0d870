/**
 * Limits slow reads. Reads of a tenant that run much longer than the statements of another tenant keep the database's processors
 * busy. While the other tenant uses the database, few of them run at a time. Writes also wait for disks and locks, so they do not
 * count.
 */
import { serverRef, type TenantRef } from '../identity/tenant-ref.js'
import { FairSemaphore, type Party } from '../concurrency/fair-semaphore.js'
import { databaseBusy } from './failures.js'

const slowMs = 20 // ms; a shorter statement is not slow
const quickMs = 5 // ms; only shorter runs count as quick, because a slow statement may take less time alone than beside others
const slower = 4 // a slow statement takes at least this many times the mean of the other tenant's statements
const weight = 0.1 // of a new statement in its tenant's moving average
const besideMs = 250 // ms after a statement in which its tenant counts as using the database
const remembered = 20 // quick runs until a statement is no longer slow
const maxSlow = 1000 // slow statements per tenant
const connectionsPerRead = 8 // pool connections per slow read that may run at a time

interface SlowTenant {
  readonly gate: FairSemaphore
  /** The remaining quick runs of each statement until it is no longer slow. */
  readonly statements: Map<string, number>
}

/** One of the two tenants with the latest statements. */
interface Recent {
  tenant: TenantRef
  /** The moving average of its statements, in milliseconds. */
  ms: number
  at: number
}

/** The place of a started statement; null if it needs none. */
export type Place = Party | null

export class SlowReads {
  readonly #atOnce: number
  readonly #timeoutMs: number
  readonly #now: () => number
  readonly #tenants = new Map<TenantRef, SlowTenant>()
  #last: Recent = { tenant: serverRef, ms: 0, at: -Infinity }
  #other: Recent = { tenant: serverRef, ms: 0, at: -Infinity }

  /** `connections`: the size of the pool; `timeoutMs`: the longest wait of a read. */
  constructor (connections: number, timeoutMs: number, now: () => number = () => performance.now()) {
    this.#atOnce = Math.max(1, Math.floor(connections / connectionsPerRead))
    this.#timeoutMs = timeoutMs
    this.#now = now
  }

  /** Calls `start` when the statement may run, or `refused` after the timeout. Each start ends with `ended` or `leave`. */
  enter (tenant: TenantRef, text: string, start: (place: Place) => void, refused: () => void): void {
    const slow = this.#tenants.size === 0 ? undefined : this.#tenants.get(tenant)
    if (slow === undefined || !slow.statements.has(text) || !this.#isBeside(tenant, this.#now())) return start(null)
    slow.gate.acquire(tenant, start, refused)
  }

  /** Runs the statement when it may run; rejects with `databaseBusy` after the timeout. */
  async run<T> (tenant: TenantRef, text: string, statement: () => Promise<T>): Promise<T> {
    const place = await new Promise<Place>((resolve, reject) => this.enter(tenant, text, resolve, () => reject(databaseBusy())))
    const began = this.#now()
    try {
      return await statement()
    } finally {
      this.ended(tenant, text, this.#now() - began, place)
    }
  }

  /** The statement has ended after `ms` milliseconds. */
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

  /** Updates the tenant's average and returns the other tenant. The server's own statements do not slow down a tenant. */
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
