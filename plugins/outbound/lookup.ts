/** The addresses of names. */
import dns from 'node:dns'

/** All addresses of a name, as digits; rejects without any. */
export type Lookup = (hostname: string) => Promise<readonly string[]>

const maxMs = 4000 // for all replies together

/**
 * Asks the name servers without a thread of the process. A tenant's names can have servers that never reply, and the system's resolver,
 * which runs few lookups at a time, also serves the database's connections.
 *
 * @param servers addresses with ports. Default: those of the system
 */
export function askNameServers (servers?: readonly string[]): Lookup {
  return async (hostname) => {
    const resolver = new dns.promises.Resolver({ timeout: 1500, tries: 2 })
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

/** Asks the system's resolver, which knows the names of the server's network. */
export const askSystem: Lookup = (hostname) =>
  new Promise((resolve, reject) => {
    dns.lookup(hostname, { all: true }, (error, found) => error === null ? resolve(found.map(({ address }) => address)) : reject(error))
  })
