/** The addresses of names. */
import { promises as dns } from 'node:dns'

/** All addresses of a name, as digits; rejects without any. */
export type Lookup = (hostname: string) => Promise<readonly string[]>

const maxMs = 4000 // for all replies together
const slowMs = 1000 // for a lookup, after which the name counts as slow until its next lookup

/**
 * Asks the name servers without a thread of the process. A tenant's names can have servers that never reply, and the system's resolver,
 * which runs few lookups at a time, also serves the database's connections.
 *
 * @param servers addresses with ports. Default: those of the system
 */
export function askNameServers (servers?: readonly string[]): Lookup {
  return async (hostname) => {
    const resolver = new dns.Resolver({ timeout: 1500, tries: 2 })
    if (servers !== undefined) resolver.setServers(servers)
    const timer = setTimeout(() => resolver.cancel(), maxMs)
    try {
      const [four, six] = await Promise.allSettled([resolver.resolve4(hostname), resolver.resolve6(hostname)])
      const found = [...four.status === 'fulfilled' ? four.value : [], ...six.status === 'fulfilled' ? six.value : []]
      if (found.length === 0 && four.status === 'rejected') throw four.reason
      return found
    } finally {
      clearTimeout(timer)
    }
  }
}

/**
 * Looks a name up once at a time for all callers, and slow names one after the other. The system's resolver runs few lookups at a time,
 * and each takes 10 s or more if a name server does not answer: otherwise calls to one such service would keep other services, Redis and
 * the database without addresses.
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

/** Asks the system's resolver, which knows the names of the server's network. */
export const askSystem = sharedLookup(async (hostname) => (await dns.lookup(hostname, { all: true })).map(({ address }) => address))
