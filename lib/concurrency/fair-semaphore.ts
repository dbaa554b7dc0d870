/**
 * Shares a limited number of places, such as connections of a pool or concurrent password checks. In the order of arrival, the slow work of
 * one tenant would delay all others. So:
 * - waiting accounts are served in turn, one for each tenant, and the server's own work before all of them. An account that
 *   returns its place comes after those that already wait
 * - if places are held for long, an account that holds places gets another only while enough stay free: a quarter of the number that
 *   it holds. An account without places can take the last one.
 */
import { serverRef, type TenantRef } from '../identity/tenant-ref.js'

/** A participant. `Key` is a tenant, or also an address if requests are counted by address. */
export interface Account<Key extends string = TenantRef, Shared = never> {
  readonly key: Key
  held: number
  /** In order of arrival; null at first. A Set would keep removed waiters, and so their requests (see slots.ts). */
  waiting: Array<Waiter<Key, Shared>> | null
}

interface Waiter<Key extends string, Shared> {
  readonly granted: (account: Account<Key, Shared>) => void
  readonly refused: () => void
  readonly shared: Shared | undefined
  readonly timer: NodeJS.Timeout
}

const heldPerFree = 4 // a single tenant can have four fifths of the places
const maxKept = 10_000 // idle accounts; creating one again is the slowest part here

export interface SemaphoreOptions<Key> {
  /** Some places stay free for other accounts, since places are held for long. Default: true. */
  readonly keepsFree?: boolean
  /** The most places of an account. Default: all. */
  readonly maxOf?: (key: Key) => number
}

export class FairSemaphore<Key extends string = TenantRef, Shared = never> {
  private readonly accounts = new Map<string, Account<Key, Shared>>()
  /** Waiting accounts, in the order of their turns. */
  private readonly turns = new Set<Account<Key, Shared>>()
  private taken = 0
  private waiters = 0
  /** The places that may be taken at present. */
  private limit: number
  private readonly keepsFree: boolean
  private readonly maxOf: (key: Key) => number

  /** `max`: places; `timeoutMs`: the longest wait for one. */
  constructor (
    private readonly max: number,
    private readonly timeoutMs: number,
    { keepsFree = true, maxOf = () => max }: SemaphoreOptions<Key> = {}
  ) {
    this.keepsFree = keepsFree
    this.maxOf = maxOf
    this.limit = max
  }

  get waiting (): number {
    return this.waiters
  }

  /**
   * Calls `granted` when there is a place, at once if one is free, or `refused` after the timeout. `release` returns a granted place.
   * `shared`: for `join`, if the waiter can share a place.
   */
  acquire (key: Key, granted: (account: Account<Key, Shared>) => void, refused: () => void, shared?: Shared): void {
    let account = this.accounts.get(key)
    if (account === undefined) this.accounts.set(key, account = { key, held: 0, waiting: null })
    if (!isWaiting(account) && this.mayTake(account)) return this.grant(account, granted)
    const timer = setTimeout(() => this.refuse(waiter, account), this.timeoutMs)
    const waiter: Waiter<Key, Shared> = { granted, refused, shared, timer }
    account.waiting ??= []
    account.waiting.push(waiter)
    this.turns.add(account)
    this.waiters++
  }

  /** Runs the work in a place of the tenant; after the timeout rejects with the error that `refusal` creates. */
  async run<T> (key: Key, refusal: () => Error, work: () => Promise<T>): Promise<T> {
    const account = await new Promise<Account<Key, Shared>>((resolve, reject) => this.acquire(key, resolve, () => reject(refusal())))
    try {
      return await work()
    } finally {
      this.release(account)
    }
  }

  release (account: Account<Key, Shared>): void {
    this.taken--
    account.held--
    if (this.waiters > 0) {
      // If it still holds places, `keepsFree` already leaves the last ones to others.
      if (account.held === 0 || !this.keepsFree) this.moveToEnd(account)
      this.serve()
    }
    this.forget(account)
  }

  /** From now on, at most `limit` places are taken. With `keepsFree`, one account takes all but one of them at most. */
  limitTo (limit: number): void {
    const rises = limit > this.limit
    this.limit = Math.min(this.max, limit)
    if (rises && this.waiters > 0) this.serve()
  }

  /**
   * Removes the account's first waiter, which then shares a place that the account already holds. Returns its `shared`; undefined, and
   * removes none, if it cannot share.
   */
  join (account: Account<Key, Shared>): Shared | undefined {
    const [waiter] = account.waiting ?? []
    if (waiter?.shared === undefined) return undefined
    this.remove(waiter, account)
    if (!isWaiting(account)) this.turns.delete(account)
    return waiter.shared
  }

  /** Refuses all waiters. */
  close (): void {
    for (const account of [...this.turns]) {
      for (const waiter of [...account.waiting ?? []]) this.refuse(waiter, account)
    }
  }

  private mayTake ({ key, held }: Account<Key, Shared>): boolean {
    if (this.taken >= this.limit || held >= this.maxOf(key)) return false
    return held === 0 || !this.keepsFree || (held < this.limit - 1 && (this.max - this.taken - 1) * heldPerFree >= held)
  }

  private grant (account: Account<Key, Shared>, granted: (account: Account<Key, Shared>) => void): void {
    this.taken++
    account.held++
    granted(account)
  }

  private serve (): void {
    for (let account = this.next(); account !== undefined; account = this.next()) {
      const [waiter] = account.waiting ?? []
      if (waiter === undefined) return
      this.remove(waiter, account)
      this.moveToEnd(account)
      this.grant(account, waiter.granted)
    }
  }

  /**
   * Its next turn comes after those of all others that wait now. Not only after a grant: a request that it made while it held a place
   * would come before the first request of another account.
   */
  private moveToEnd (account: Account<Key, Shared>): void {
    if (this.turns.delete(account) && isWaiting(account)) this.turns.add(account)
  }

  /** Skipped accounts hold places, so there are never more of them than places. */
  private next (): Account<Key, Shared> | undefined {
    if (this.waiters === 0 || this.taken >= this.limit) return undefined
    const own = this.accounts.get(serverRef)
    if (own !== undefined && isWaiting(own) && this.mayTake(own)) return own
    for (const account of this.turns) if (this.mayTake(account)) return account
    return undefined
  }

  private refuse (waiter: Waiter<Key, Shared>, account: Account<Key, Shared>): void {
    this.remove(waiter, account)
    if (!isWaiting(account)) this.turns.delete(account)
    this.forget(account)
    waiter.refused()
  }

  private remove (waiter: Waiter<Key, Shared>, account: Account<Key, Shared>): void {
    clearTimeout(waiter.timer)
    // Waiters are granted and refused from the front.
    account.waiting?.splice(account.waiting.indexOf(waiter), 1)
    this.waiters--
  }

  private forget (account: Account<Key, Shared>): void {
    if (this.accounts.size > maxKept && account.held === 0 && !isWaiting(account)) this.accounts.delete(account.key)
  }
}

function isWaiting<Key extends string, Shared> ({ waiting }: Account<Key, Shared>): boolean {
  return waiting !== null && waiting.length > 0
}
