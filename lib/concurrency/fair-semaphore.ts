/**
 * Shares a limited number of places, such as connections of a pool or passwords that are checked at once. In the order of
 * arrival, the slow work of one tenant would delay all others. So:
 * - waiting parties are served in turn, one for each tenant, and the server's own work before all of them
 * - where places are held for long, a party with places gets another only while a quarter as many stay free for the others; a
 *   party without any gets the last
 */

/** One of those who share: a tenant, callers without a tenant, or the server itself. */
export interface Party {
  readonly key: string | null | undefined
  held: number
  /**
   * In order of arrival; null before the first one, since most parties never wait. Not a Set: its replaced tables would keep
   * waiters, and so their requests, from being collected (see slots.ts).
   */
  waiting: Waiter[] | null
}

interface Waiter {
  readonly granted: (party: Party) => void
  readonly refused: () => void
  readonly timer: NodeJS.Timeout
}

const heldPerFree = 4 // a tenant that is alone has four fifths of the places
const maxKept = 10_000 // parties that neither hold nor wait; making one anew takes longer than all else here

export class FairSemaphore {
  private readonly max: number
  private readonly timeoutMs: number
  private readonly keepsFree: boolean
  private readonly parties = new Map<string | null | undefined, Party>()
  /** Those who wait, in the order of their turns. */
  private readonly turns = new Set<Party>()
  private taken = 0
  private waiters = 0

  /**
   * `max`: places; `timeoutMs`: how long one waits for one; `keepsFree`: some stay free for others, which matters where
   * they are held for long. Without it the turns alone are fair.
   */
  constructor (max: number, timeoutMs: number, keepsFree = true) {
    this.max = max
    this.timeoutMs = timeoutMs
    this.keepsFree = keepsFree
  }

  /** How many wait. */
  get waiting (): number {
    return this.waiters
  }

  /**
   * Calls `granted` when there is a place for the tenant (null: none; undefined: the server itself), at once where
   * one is free, or `refused` when it took too long. Each granted place must be returned with `leave`.
   */
  acquire (key: string | null | undefined, granted: (party: Party) => void, refused: () => void): void {
    let party = this.parties.get(key)
    if (party === undefined) this.parties.set(key, party = { key, held: 0, waiting: null })
    if (!isWaiting(party) && this.mayTake(party)) return this.grant(party, granted)
    const waiter: Waiter = { granted, refused, timer: setTimeout(() => this.refuse(waiter, party), this.timeoutMs) }
    party.waiting ??= []
    party.waiting.push(waiter)
    this.turns.add(party)
    this.waiters++
  }

  /** Runs the work in a place of the tenant; rejects with what `refusal` makes where that took too long. */
  async run<T> (key: string | null | undefined, refusal: () => Error, work: () => Promise<T>): Promise<T> {
    const party = await new Promise<Party>((resolve, reject) => this.acquire(key, resolve, () => reject(refusal())))
    try {
      return await work()
    } finally {
      this.release(party)
    }
  }

  release (party: Party): void {
    this.taken--
    party.held--
    if (this.waiters > 0) this.serve()
    this.forget(party)
  }

  /** Refuses all that wait. */
  close (): void {
    for (const party of [...this.turns]) {
      for (const waiter of [...party.waiting ?? []]) this.refuse(waiter, party)
    }
  }

  private mayTake ({ held }: Party): boolean {
    const free = this.max - this.taken
    return free > 0 && (held === 0 || !this.keepsFree || (free - 1) * heldPerFree >= held)
  }

  private grant (party: Party, granted: (party: Party) => void): void {
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

  /** Those who are passed over hold places, so that they are never more than there are places. */
  private next (): Party | undefined {
    if (this.waiters === 0 || this.taken >= this.max) return undefined
    const own = this.parties.get(undefined)
    if (own !== undefined && isWaiting(own) && this.mayTake(own)) return own
    for (const party of this.turns) if (this.mayTake(party)) return party
    return undefined
  }

  private refuse (waiter: Waiter, party: Party): void {
    this.remove(waiter, party)
    if (!isWaiting(party)) this.turns.delete(party)
    this.forget(party)
    waiter.refused()
  }

  private remove (waiter: Waiter, party: Party): void {
    clearTimeout(waiter.timer)
    // Waiters are granted and refused from the front.
    party.waiting?.splice(party.waiting.indexOf(waiter), 1)
    this.waiters--
  }

  private forget (party: Party): void {
    if (this.parties.size > maxKept && party.held === 0 && !isWaiting(party)) this.parties.delete(party.key)
  }
}

function isWaiting ({ waiting }: Party): boolean {
  return waiting !== null && waiting.length > 0
}
