/**
 * How long tenants hold connections. Slow statements of one tenant on several connections keep the processors of the database
 * busy, and the short statements of other tenants wait for them. So a slow tenant has few connections at a time while a much
 * faster one uses the database.
 */
import type { Party } from '../fair-gate.js'

const slowMs = 15 // a tenant that holds connections for less is not slow
const slower = 3 // and for less than so many times as long as another tenant neither
const shareOfSlow = 10 // a slow tenant has a tenth of the connections, and at least one
const decay = 0.97 // of what is known, with each further connection that is returned
const recentMs = 250 // a tenant uses the database for so long after it returned a connection
const maxRecent = 20 // tenants

/** Sums of times and of their squares: their ratio is the time that most of the held time belongs to, among many short ones too. */
interface Times {
  sum: number
  squares: number
  endedAt: number
}

export class HoldTimes {
  readonly #few: number
  readonly #now: () => number
  readonly #times = new WeakMap<Party, Times>()
  /** The parties that returned a connection last, in that order. */
  readonly #recent = new Set<Party>()
  #latest: Party | undefined

  /** `connections`: how many there are; `now`: the clock, in milliseconds. */
  constructor (connections: number, now: () => number = () => performance.now()) {
    this.#few = Math.max(1, Math.floor(connections / shareOfSlow))
    this.#now = now
  }

  /** The party has returned a connection, which it got at `since`. */
  ended (party: Party, since: number): void {
    const now = this.#now()
    const ms = now - since
    const times = this.#times.get(party)
    if (times === undefined) this.#times.set(party, { sum: ms, squares: ms * ms, endedAt: now })
    else {
      times.sum = times.sum * decay + ms
      times.squares = times.squares * decay + ms * ms
      times.endedAt = now
    }
    // The server's own statements are no reason to slow down a tenant.
    if (party === this.#latest || party.key === undefined) return
    this.#latest = party
    this.#recent.delete(party)
    this.#recent.add(party)
    if (this.#recent.size <= maxRecent) return
    const [oldest] = this.#recent
    if (oldest !== undefined) this.#recent.delete(oldest)
  }

  /** A party that holds connections may have another one. */
  mayHoldMore (party: Party): boolean {
    if (party.held < this.#few || party.key === undefined) return true
    const own = this.#typical(party)
    return own < slowMs || !this.#isBesideFaster(party, own)
  }

  #typical (party: Party): number {
    const times = this.#times.get(party)
    return times === undefined || times.sum === 0 ? 0 : times.squares / times.sum
  }

  #isBesideFaster (party: Party, own: number): boolean {
    const now = this.#now()
    for (const other of this.#recent) {
      const isRecent = now - (this.#times.get(other)?.endedAt ?? 0) <= recentMs
      if (isRecent && other !== party && this.#typical(other) * slower < own) return true
    }
    return false
  }
}
