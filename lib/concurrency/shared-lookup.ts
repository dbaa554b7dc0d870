/** Addresses of names from the system's resolver, which knows the names of the server's network. */
import { promises as dns } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'

/** All addresses of a name, as digits; rejects without any. */
export type Lookup = (hostname: string) => Promise<readonly string[]>

const slowMs = 1000 // for a lookup, after which the name counts as slow until its next lookup

/**
 * Looks a name up once at a time for all callers, and slow names one after the other. The system's resolver runs few lookups at a time,
 * and each takes 10 s or more if a name server does not respond. Without this limit, one unresponsive name server would block the lookups
 * of other services, Redis and the database.
 */
export function sharedLookup (ask: Lookup, now: () => number = () => performance.now()): Lookup {
  const running = new Map<string, ReturnType<Lookup>>()
  const slow = new Set<string>()
  let lastSlow: Promise<unknown> = Promise.resolve()

  async function timed (hostname: string): ReturnType<Lookup> {
    const begin = now()
    try {
      return await ask(hostname)
    } finally {
      if (now() - begin < slowMs) slow.delete(hostname)
      else slow.add(hostname)
      running.delete(hostname)
    }
  }

  return (hostname) => {
    let result = running.get(hostname)
    if (result === undefined) {
      const isSlow = slow.has(hostname)
      result = isSlow ? lastSlow.then(() => timed(hostname)) : timed(hostname)
      if (isSlow) lastSlow = result.catch(() => {})
      running.set(hostname, result)
    }
    return result
  }
}

export const askSystem = sharedLookup(async (hostname) => (await dns.lookup(hostname, { all: true })).map(({ address }) => address))

/** `askSystem` as the `lookup` option of `net.connect`. */
export const lookupForSocket: LookupFunction = (hostname, { all }, callback) => {
  askSystem(hostname).then((found) => {
    const addresses = found.map((address) => ({ address, family: isIP(address) }))
    const [{ address, family } = { address: '', family: 0 }] = addresses
    if (all === true) callback(null, addresses)
    else callback(null, address, family)
  }, (error: Error) => callback(error, ''))
}
