/**
 * Shares a limited number of places, such as connections of a pool or concurrent password checks. In the order of arrival, the slow work of
 * one tenant would delay all others. So:
 * - waiting parties are served in turn, one for each tenant, and the server's own work before all of them
 * - if places are held for long, a party with places gets another only while a quarter as many stay free for the others; a
 * party without any gets the last
 */
import { serverRef, type TenantRef } from '../identity/tenant-ref.js'

/** One of those who share; `Key` is a tenant unless requests are counted by address too. */
export interface Party<Key extends string = TenantRef> {
  readonly key: Key
  held: number
  /**
   * In order of arrival; null at first, since most parties never wait. Not a Set: its replaced tables would keep waiters, and so their
   * requests, from being collected (see slots.ts).
   */
  waiting: Array<Waiter<Key>> | null
}

interface Waiter<Key extends string> {
  readonly granted: (party: Party<Key>) => void
  readonly refused: () => void
  readonly timer: NodeJS.Timeout
}

const heldPerFree = 4 // a single tenant can have four fifths of the places
const maxKept = 10_000 // idle parties; creating one again is the slowest part here

export class FairSemaphore<Key extends string = TenantRef> {
  private readonly max: number
  private readonly timeoutMs: number
  private readonly keepsFree: boolean
  private readonly parties = new Map<string, Party<Key>>()
  /** Waiting parties, in the order of their turns. */
  private readonly turns = new Set<Party<Key>>()
  private taken = 0
  private waiters = 0

  /**
   * `max`: places; `timeoutMs`: the longest wait for one; `keepsFree`: some stay free for others, for places that are held for long.
   * Otherwise the turns alone are fair.
   */
  constructor (max: number, timeoutMs: number, keepsFree = true) {
    this.max = max
    this.timeoutMs = timeoutMs
    this.keepsFree = keepsFree
  }

  /** The number of waiters. */
  get waiting (): number {
    return this.waiters
  }

  /**
   * Calls `granted` when there is a place for the party, at once where one is free, or `refused` when it took too long. Each
   * granted place must be returned with `release`.
   */
  acquire (key: Key, granted: (party: Party<Key>) => void, refused: () => void): void {
    let party = this.parties.get(key)
    if (party === undefined) this.parties.set(key, party = { key, held: 0, waiting: null })
    if (!isWaiting(party) && this.mayTake(party)) return this.grant(party, granted)
    const waiter: Waiter<Key> = { granted, refused, timer: setTimeout(() => this.refuse(waiter, party), this.timeoutMs) }
    party.waiting ??= []
    party.waiting.push(waiter)
    this.turns.add(party)
    this.waiters++
  }

  /** Runs the work in a place of the tenant; after the timeout rejects with the error that `refusal` creates. */
  async run<T> (key: Key, refusal: () => Error, work: () => Promise<T>): Promise<T> {
    const party = await new Promise<Party<Key>>((resolve, reject) => this.acquire(key, resolve, () => reject(refusal())))
    try {
      return await work()
    } finally {
      this.release(party)
    }
  }

  release (party: Party<Key>): void {
    this.taken--
    party.held--
    if (this.waiters > 0) this.serve()
    this.forget(party)
  }

  /** Refuses all waiters. */
  close (): void {
    for (const party of [...this.turns]) {
      for (const waiter of [...party.waiting ?? []]) this.refuse(waiter, party)
    }
  }

  private mayTake ({ held }: Party<Key>): boolean {
    const free = this.max - this.taken
    return free > 0 && (held === 0 || !this.keepsFree || (free - 1) * heldPerFree >= held)
  }

  private grant (party: Party<Key>, granted: (party: Party<Key>) => void): void {
    this.taken++
    party.held++
    granted(party)
  }

  private serve (): void {
    for (let party = this.next(); party !== undefined; party = this.next()) {
      const [waiter] = party.waiting ?? []
      if (waiter === undefined) return
      this.remove(waiter, party)
      // Its next turn comes after those of all others.
      if (this.turns.delete(party) && isWaiting(party)) this.turns.add(party)
      this.grant(party, waiter.granted)
    }
  }

  /** Skipped parties hold places, so there are never more of them than places. */
  private next (): Party<Key> | undefined {
    if (this.waiters === 0 || this.taken >= this.max) return undefined
    const own = this.parties.get(serverRef)
    if (own !== undefined && isWaiting(own) && this.mayTake(own)) return own
    for (const party of this.turns) if (this.mayTake(party)) return party
    return undefined
  }

  private refuse (waiter: Waiter<Key>, party: Party<Key>): void {
    this.remove(waiter, party)
    if (!isWaiting(party)) this.turns.delete(party)
    this.forget(party)
    waiter.refused()
  }

  private remove (waiter: Waiter<Key>, party: Party<Key>): void {
    clearTimeout(waiter.timer)
    // Waiters are granted and refused from the front.
    party.waiting?.splice(party.waiting.indexOf(waiter), 1)
    this.waiters--
  }

  private forget (party: Party<Key>): void {
    if (this.parties.size > maxKept && party.held === 0 && !isWaiting(party)) this.parties.delete(party.key)
  }
}

function isWaiting<Key extends string> ({ waiting }: Party<Key>): boolean {
  return waiting !== null && waiting.length > 0
}
