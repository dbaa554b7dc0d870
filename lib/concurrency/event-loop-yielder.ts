/**
 * Divides long work of the event loop into short turns, so that it does not delay other requests. All work of the process shares the turns:
 * one piece of work in a round of the event loop, and the accounts (tenants, or addresses of callers without one) in turn. While other
 * accounts send requests, an account pauses after long work.
 */
import { isTenant, serverRef, type TenantId, type TenantRef } from '../identity/tenant-ref.js'

/** Long work asks before each piece: `if (yielder.shouldYield()) await yielder.yield()`. Work that may stop there calls `done`. */
export interface Yielder {
  /** The work must yield before its next piece. Otherwise the piece begins now. */
  shouldYield(): boolean
  /** Resolves when the next piece may begin. Other accounts that wait have their turn first. */
  yield(): Promise<void>
  /** The piece begins now, without a turn: for work that must not wait, such as in a transaction. */
  begin(): void
  /** The piece has ended. `allocated`: bytes of large buffers and texts that it made; collecting them takes the loop's time later. */
  done(allocated?: number): void
  /** The number of waiting pieces of the account. */
  readonly waiting: number
}

export interface Clock {
  /** Milliseconds. */
  readonly now: () => number
  /** Calls `work` in the next round of the event loop. */
  readonly nextRound: (work: () => void) => unknown
  readonly later: (work: () => void, ms: number) => unknown
  /** Like `later`, but does not keep the process alive. */
  readonly laterUnref: (work: () => void, ms: number) => unknown
}

const turn = 2 // ms of a round; the last piece of a turn may make it longer
const longPiece = 4 // ms; a longer piece pauses for longer than its share, since each request that it holds up waits longer
const pauseFactor = 4 // the account pauses this many times the length of a piece
const share = 100 // ms of work within about a second; an account with more pauses `longerFactor` times as long
const longerFactor = 3
const windowMs = 1000
const burst = 10 // ms of pauses that an account may owe and still work
const msPerMegabyte = 3 // of garbage collection, whose threads need the other cores too
const maxPause = 250 // ms after one piece
const presentMs = 250 // after a request, its account counts as one that other accounts could hold up
const activeMs = 1000 // after long work, the turns count requests
const maxDelay = 20 // ms in which new connections delay waiting work

const systemClock: Clock = {
  now: () => performance.now(),
  nextRound: setImmediate,
  later: (work, ms) => setTimeout(work, ms),
  laterUnref: (work, ms) => setTimeout(work, ms).unref()
}

interface Account {
  /** The time at which its pauses have made up for its work. */
  freeAt: number
  /** Milliseconds of its recent work, at `at`: they decay within about a second. */
  worked: number
  at: number
}

interface LatestRequest {
  readonly account: string
  at: number
}

export class EventLoopTurns {
  /** Long work ran within the last second: each request must be reported with `noteRequest`. Only this class changes it. */
  isActive = false
  readonly #clock: Clock
  /** Accounts whose work waits, in the order of their turns. */
  readonly #queues = new Map<string, (() => void)[]>()
  readonly #accounts = new Map<string, Account>()
  /** The two accounts with the latest requests. */
  #latest: LatestRequest | undefined
  #latestOfOthers: LatestRequest | undefined
  /** Some work uses the turn of this round. */
  #isRoundTaken = false
  /** Milliseconds of work in this round. */
  #spent = 0
  /** A connection arrived in this round. */
  #connected = false
  /** When new connections began to delay waiting work. */
  #delayedSince = Infinity
  /** The running piece. */
  #piece: { readonly account: string, readonly start: number } | null = null
  /** When the timer of the next pausing account fires. */
  #timerAt = Infinity
  #lastWork = -Infinity

  constructor (clock: Clock = systemClock) {
    this.#clock = clock
  }

  noteRequest (account: string): void {
    const at = this.#clock.now()
    if (this.#latest?.account === account) {
      this.#latest.at = at
      return
    }
    this.#latestOfOthers = this.#latest
    this.#latest = { account, at }
  }

  /** A connection has arrived. The loop accepts one in each round, so rounds must be short, or accounts would delay one another. */
  connected (): void {
    if (!this.isActive) return
    this.#takeRound()
    this.#connected = true
    this.#spent = turn
  }

  /** The yielder of an account. The server's own work, with the empty account, never pauses. */
  yielder (account: string): Yielder {
    const waiting = () => this.#queues.get(account)?.length ?? 0
    return {
      shouldYield: () => this.#shouldYield(account),
      yield: () => this.#yield(account),
      begin: () => this.#beginPiece(account),
      done: (allocated) => this.#endPiece(allocated),
      get waiting () {
        return waiting()
      }
    }
  }

  #shouldYield (account: string): boolean {
    this.#endPiece()
    this.#takeRound()
    const start = this.#clock.now()
    if (this.#spent >= turn || this.#pauseOf(account, start) > burst) return true
    this.#piece = { account, start }
    return false
  }

  #beginPiece (account: string): void {
    this.#endPiece()
    this.#takeRound()
    this.#piece = { account, start: this.#clock.now() }
  }

  #yield (account: string): Promise<void> {
    this.#endPiece()
    this.#takeRound()
    return new Promise((resolve) => {
      const queue = this.#queues.get(account)
      if (queue === undefined) this.#queues.set(account, [resolve])
      else queue.push(resolve)
    })
  }

  #endPiece (allocated = 0): void {
    if (this.#piece === null) return
    const { account, start } = this.#piece
    this.#piece = null
    const now = this.#clock.now()
    const length = now - start + allocated / 1_048_576 * msPerMegabyte
    this.#spent += length
    if (account === '' || !this.#isBeside(account, now)) return
    const known = this.#accounts.get(account) ?? { freeAt: now, worked: 0, at: now }
    this.#accounts.set(account, known)
    known.worked = workedAt(known, now) + length
    known.at = now
    const factor = known.worked > share ? longerFactor * pauseFactor : pauseFactor
    const pause = Math.min(maxPause, factor * length * Math.max(1, length / longPiece))
    known.freeAt = Math.max(known.freeAt, now) + pause
  }

  /** Takes the turn of this round, unless it is taken already. The next round begins without spent time, and serves waiting work. */
  #takeRound (): void {
    if (this.#isRoundTaken) return
    this.#isRoundTaken = true
    this.#lastWork = this.#clock.now()
    if (!this.isActive) {
      this.isActive = true
      this.#clock.laterUnref(() => this.#deactivate(), activeMs)
    }
    this.#clock.nextRound(() => {
      this.#isRoundTaken = false
      this.#spent = 0
      this.#piece = null
      if (!this.#isDelayed()) this.#serve()
    })
  }

  /** Leaves this round without work, and looks for further connections in the next one. */
  #isDelayed (): boolean {
    const now = this.#clock.now()
    if (this.#connected && now < this.#delayedSince + maxDelay) {
      this.#delayedSince = Math.min(this.#delayedSince, now)
      this.#connected = false
      this.#takeRound()
      this.#spent = turn
      return true
    }
    this.#connected = false
    this.#delayedSince = Infinity
    return false
  }

  /** Gives the turn of this round to the next account that has paused enough. */
  #serve (): void {
    if (this.#isRoundTaken || this.#queues.size === 0) return
    const now = this.#clock.now()
    let soonest = Infinity
    for (const [account, queue] of this.#queues) {
      const pause = this.#pauseOf(account, now)
      if (pause > 0) {
        soonest = Math.min(soonest, now + pause)
        continue
      }
      const work = queue.shift()
      this.#queues.delete(account)
      if (queue.length > 0) this.#queues.set(account, queue)
      this.#takeRound()
      this.#piece = { account, start: now }
      work?.()
      return
    }
    this.#serveLater(soonest, now)
  }

  #serveLater (time: number, now: number): void {
    if (time >= this.#timerAt) return
    this.#timerAt = time
    this.#clock.later(() => {
      this.#timerAt = Infinity
      this.#serve()
    }, Math.ceil(time - now))
  }

  #pauseOf (account: string, now: number): number {
    return Math.max(0, (this.#accounts.get(account)?.freeAt ?? 0) - now)
  }

  /** Another account sends requests, which the account could delay. */
  #isBeside (account: string, now: number): boolean {
    const other = this.#latest?.account === account ? this.#latestOfOthers : this.#latest
    return other !== undefined && now - other.at <= presentMs
  }

  #deactivate (): void {
    const now = this.#clock.now()
    for (const [name, account] of this.#accounts) {
      if (account.freeAt <= now && workedAt(account, now) < 1) this.#accounts.delete(name)
    }
    this.isActive = now - this.#lastWork < activeMs || this.#accounts.size > 0 || this.#queues.size > 0
    if (this.isActive) this.#clock.laterUnref(() => this.#deactivate(), activeMs)
  }
}

function workedAt ({ worked, at }: Account, now: number): number {
  return worked * Math.exp((at - now) / windowMs)
}

/** The turns of the process. */
export const turns = new EventLoopTurns()

export function tenantAccount (tenant: TenantId): string {
  return `tenant ${tenant}`
}

/** The account of a tenant; the others share the server's own, which never pauses. */
export function accountOfTenant (tenant: TenantRef): string {
  return isTenant(tenant) ? tenantAccount(tenant) : ''
}

export function createYielder (tenant: TenantRef = serverRef): Yielder {
  return turns.yielder(accountOfTenant(tenant))
}

/** Runs the work in a turn of the tenant. */
export async function inTurnOf<Result> (tenant: TenantRef, work: () => Result): Promise<Result> {
  const yielder = createYielder(tenant)
  if (yielder.shouldYield()) await yielder.yield()
  try {
    return work()
  } finally {
    yielder.done()
  }
}
