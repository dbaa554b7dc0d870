/** A limited number of connections of one kind. Calls wait for a connection in turns. */
import type { TenantLife } from '../../lib/identity/tenant-ref.js'
import { type ConnectionOwner, type Entry, isOfTenant, sharesOf } from './shares.js'

/** The claim of a call for a connection. */
export interface Claim {
  readonly key: string
  readonly owner: ConnectionOwner
  /** Opens the connection. Throws if that is not possible now. */
  readonly begin: () => Entry
}

interface Waiter extends Claim {
  readonly grant: (entry: Entry) => void
  readonly refuse: (error: unknown) => void
}

export type Entries = ReturnType<typeof createEntries>

export function createEntries (max: number) {
  /** Least recently used first. */
  const entries = new Map<string, Entry>()
  const ending = new Set<Promise<void>>()
  /** By owner, in the order of turns. */
  const waiting = new Map<ConnectionOwner, Waiter[]>()
  /** Busy connections that take no further calls, so that they end in favour of other owners. */
  let leaving: ReadonlySet<Entry> = new Set()

  function use (entry: Entry): Entry {
    entry.active++
    if (entries.delete(entry.key)) entries.set(entry.key, entry)
    return entry
  }

  function leave (waiter: Waiter): void {
    const own = waiting.get(waiter.owner)
    const index = own?.indexOf(waiter) ?? -1
    if (index !== -1) own?.splice(index, 1)
    if (own?.length === 0) waiting.delete(waiter.owner)
  }

  function open (waiter: Waiter): void {
    leave(waiter)
    // The owner's next turn comes after those of all other owners.
    const rest = waiting.get(waiter.owner)
    if (rest !== undefined && waiting.delete(waiter.owner)) waiting.set(waiter.owner, rest)
    try {
      const entry = waiter.begin()
      entries.set(entry.key, entry)
      waiter.grant(use(entry))
    } catch (error) {
      waiter.refuse(error)
    }
  }

  /** The first call of each owner that needs a new connection, in the order of service: owners with the fewest busy ones first. */
  function claims (held: (owner: ConnectionOwner) => number): Waiter[] {
    const firsts = Array.from(waiting.values(), (waiters) => waiters.find(({ key }) => !entries.has(key))).filter((waiter) =>
      waiter !== undefined
    )
    return firsts.sort((left, right) => held(left.owner) - held(right.owner))
  }

  function serve (): void {
    if (waiting.size === 0) {
      leaving = new Set()
      return
    }
    while (entries.size + ending.size < max) {
      const { held, mayTake } = sharesOf(entries.values(), max)
      const next = claims(held).find(({ owner }) => mayTake(owner))
      if (next === undefined) break
      open(next)
    }
    endIdle()
    for (const waiters of [...waiting.values()]) {
      for (const waiter of [...waiters]) {
        const entry = entries.get(waiter.key)
        if (entry === undefined || leaving.has(entry)) continue
        leave(waiter)
        waiter.grant(use(entry))
      }
    }
  }

  /** Ends idle connections for the waiting calls that may replace them, and marks busy connections to end after their calls. */
  function endIdle (): void {
    const marked = new Set<Entry>()
    let coming = ending.size
    for (const { owner } of claims(sharesOf(entries.values(), max).held)) {
      const shares = sharesOf(entries.values(), max)
      if (shares.mayTake(owner)) {
        if (coming-- > 0) continue
        const idle = shares.idle()
        if (idle !== undefined) {
          entries.delete(idle.key)
          end(idle)
          continue
        }
      }
      const spare = shares.spare(owner, marked)
      if (spare === undefined) break
      marked.add(spare)
    }
    leaving = marked
  }

  function refuseAll (waiters: readonly Waiter[], refusal: Error): void {
    for (const waiter of [...waiters]) {
      leave(waiter)
      waiter.refuse(refusal)
    }
  }

  function end ({ opened }: Entry): void {
    const work = opened.then((connection) => connection.close()).catch(() => {}).finally(() => {
      ending.delete(work)
      serve()
    })
    ending.add(work)
  }

  return {
    get: (key: string): Entry | undefined => entries.get(key),
    /** Call it when a connection is open, and may thus be ended for another one. */
    changed: serve,

    /** Resolves with a connection, in use until `release`. Rejects with the error of `begin`, and with the signal's reason. */
    async take (claim: Claim, signal: AbortSignal): Promise<Entry> {
      signal.throwIfAborted()
      const known = entries.get(claim.key)
      if (known !== undefined && !leaving.has(known)) return use(known)
      return await new Promise((resolve, reject) => {
        const abort = () => {
          leave(waiter)
          reject(signal.reason)
          serve()
        }
        const settled = () => signal.removeEventListener('abort', abort)
        const waiter: Waiter = {
          ...claim,
          grant (entry) {
            settled()
            resolve(entry)
          },
          refuse (error) {
            settled()
            reject(error)
          }
        }
        signal.addEventListener('abort', abort, { once: true })
        const own = waiting.get(claim.owner)
        if (own === undefined) waiting.set(claim.owner, [waiter])
        else own.push(waiter)
        serve()
      })
    },

    release (entry: Entry): void {
      entry.active--
      serve()
    },

    /** Removes a connection that has ended. Returns false if it was removed before. */
    remove (entry: Entry): boolean {
      if (entries.get(entry.key) !== entry) return false
      entries.delete(entry.key)
      serve()
      return true
    },

    /** The tenants that have or wait for a connection of their own. */
    tenants: (): TenantLife[] => [...Array.from(entries.values(), ({ owner }) => owner), ...waiting.keys()].filter(isOfTenant),

    /** Ends the connections of the tenant, also during calls, and rejects its waiting calls. */
    endOf (tenant: TenantLife, refusal: Error): void {
      refuseAll(waiting.get(tenant) ?? [], refusal)
      for (const entry of [...entries.values()]) {
        if (entry.owner !== tenant) continue
        entries.delete(entry.key)
        end(entry)
      }
      serve()
    },

    /** Ends all connections, and rejects all waiting calls. */
    async close (refusal: Error): Promise<void> {
      const open = [...entries.values()]
      entries.clear()
      refuseAll([...waiting.values()].flat(), refusal)
      open.forEach(end)
      await Promise.all(ending)
    }
  }
}
