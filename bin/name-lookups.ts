/**
 * The system's look-ups of names, shared in this process. Node.js runs few at a time, in half of its threads, and each takes 10 s or more
 * if a name server does not answer. Otherwise calls to one such service would keep the database and other services without addresses.
 */
import dns, { type LookupAddress, type LookupOptions } from 'node:dns'
import { syncBuiltinESMExports } from 'node:module'
import { promisify } from 'node:util'

const slowMs = 1000 // for a look-up, after which the name counts as slow until its next look-up

type Result = readonly [error: NodeJS.ErrnoException | null, address: string | LookupAddress[], family: number]
type Callback = (...result: Result) => void
export type Lookup = (hostname: string, options: LookupOptions, callback: Callback) => void

/** Asks for a name once at a time, and for slow names one after the other. */
export function createSharedLookup (ask: Lookup, now: () => number): Lookup {
  const running = new Map<string, Promise<Result>>()
  const slow = new Set<string>()
  let slowTurn: Promise<unknown> = Promise.resolve()

  async function resultOf (hostname: string, options: LookupOptions): Promise<Result> {
    const begin = now()
    const result = await new Promise<Result>((resolve) => ask(hostname, options, (...result) => resolve(result)))
    if (now() - begin < slowMs) slow.delete(hostname)
    else slow.add(hostname)
    return result
  }

  return (hostname, options, callback) => {
    const key = JSON.stringify([hostname, options])
    let result = running.get(key)
    if (result === undefined) {
      const look = () => resultOf(hostname, options).catch((error: Error): Result => [error, '', 0])
      result = slow.has(hostname) ? slowTurn.then(look) : look()
      if (slow.has(hostname)) slowTurn = result
      running.set(key, result)
      result.then(() => running.delete(key))
    }
    result.then((shared) => callback(...shared))
  }
}

/** Shares the look-ups of all connections of this process. */
export function shareLookups (): void {
  const shared = createSharedLookup(dns.lookup, () => performance.now())
  const lookup = (hostname: string, options: LookupOptions | number | Callback, callback?: Callback) => {
    if (typeof options === 'function') shared(hostname, {}, options)
    else if (callback !== undefined) shared(hostname, typeof options === 'number' ? { family: options } : options, callback)
  }
  Object.assign(dns, { lookup: Object.assign(lookup, { [promisify.custom]: dns.promises.lookup }) })
  syncBuiltinESMExports()
}
