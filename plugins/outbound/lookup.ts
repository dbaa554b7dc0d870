/** The addresses of names that tenants choose. */
import { promises as dns } from 'node:dns'
import type { Lookup } from '../../lib/concurrency/shared-lookup.js'

const maxMs = 4000 // for all replies together

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
