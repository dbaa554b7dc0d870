/** The two pools of connections: to tenants' addresses, behind the egress rule, and to trusted services. */
import { setMaxListeners } from 'node:events'
import { isIP } from 'node:net'
import type { buildConnector } from 'undici'
import { askSystem, type Lookup, lookupForSocket } from '../../lib/concurrency/shared-lookup.js'
import { failure } from '../../lib/errors.js'
import type { EgressRule } from '../../lib/http/egress.js'
import { askNameServers } from './lookup.js'

const connectMs = 5000
const keepMs = 4000 // an idle connection
const trustedKeepMs = 60_000 // an idle connection, if the service announces that it keeps it
// After a minute, another connection takes further requests: the name may have another address.
const kept = { keepAliveTimeout: keepMs, clientTtl: 60_000 }

export function createPools (rule: EgressRule, lookup: Lookup | undefined) {
  const connections = new AbortController()
  // Each connection adds listeners.
  setMaxListeners(0, connections.signal)
  let opened: ReturnType<typeof make> | undefined

  async function make () {
    const { Agent, buildConnector } = await import('undici')
    const { signal } = connections
    const guard = createGuard(buildConnector, rule, lookup, signal)
    return {
      guard,
      guarded: new Agent({ ...kept, connect: guard.connector, keepAliveMaxTimeout: keepMs }),
      trusted: new Agent({ ...kept, connect: { timeout: connectMs, signal, lookup: lookupForSocket }, keepAliveMaxTimeout: trustedKeepMs })
    }
  }

  return {
    /** The pools are created, and undici is loaded, at the first call. */
    open: () => (opened ??= make()),
    /** Ends all connections. */
    async close (): Promise<void> {
      if (opened !== undefined) {
        const { guarded, trusted } = await opened
        await Promise.all([guarded.destroy(), trusted.destroy()])
      }
      connections.abort()
    }
  }
}

const maxAddresses = 3 // of a name that are tried
const firstMs = 2000 // for each that is followed by another
const lastMs = 5000

type Connector = buildConnector.connector
type Socket = Extract<Parameters<buildConnector.Callback>, [null, unknown]>[1]

/**
 * A connector that fails with `addressRefused` if the rule refuses any address of the host. The rule is checked when a connection is made,
 * for the address of that connection: a later change of the name has no effect.
 *
 * @param build undici's
 * @param signal ends connections, including those being established
 */
function createGuard (build: typeof buildConnector, rule: EgressRule, lookup: Lookup | undefined, signal: AbortSignal) {
  const listed = lookup ?? askSystem
  const unlisted = lookup ?? askNameServers()
  const first = build({ timeout: firstMs, signal })
  const last = build({ timeout: lastMs, signal })
  let open = 0

  /** The allowed addresses. */
  async function addressesOf (hostname: string, port: number): Promise<readonly string[]> {
    if (isIP(hostname) !== 0) {
      if (!rule.permits(hostname, port)) throw failure('addressRefused')
      return [hostname]
    }
    const host = hostname.toLowerCase().replace(/\.$/, '')
    if (rule.lists(host, port)) return (await listed(host)).slice(0, maxAddresses)
    if (host === 'localhost' || host.endsWith('.localhost')) throw failure('addressRefused')
    const addresses = await unlisted(host)
    // A private address among public ones is no accident: the choice between them would be chance.
    if (!addresses.every((address) => rule.permits(address, port))) throw failure('addressRefused')
    return addresses.slice(0, maxAddresses)
  }

  async function connect (options: buildConnector.Options): Promise<Socket> {
    const addresses = await addressesOf(options.hostname, Number(options.port) || (options.protocol === 'https:' ? 443 : 80))
    let error: unknown = new Error('the name has no address')
    for (const [index, hostname] of addresses.entries()) {
      try {
        // The name stays unchanged for the certificate: undici takes it from `host`.
        return await attempt(index === addresses.length - 1 ? last : first, { ...options, hostname })
      } catch (failed) {
        error = failed
      }
    }
    throw error
  }

  return {
    connector (options: buildConnector.Options, callback: buildConnector.Callback): void {
      connect(options).then((socket) => {
        open++
        socket.once('close', () => {
          open--
        })
        callback(null, socket)
      }, (error: unknown) => callback(error instanceof Error ? error : new Error('no connection'), null))
    },
    /** The number of its open connections. */
    get open () {
      return open
    }
  }
}

function attempt (connector: Connector, options: buildConnector.Options): Promise<Socket> {
  return new Promise((resolve, reject) => {
    connector(options, (...[error, socket]) => {
      if (error === null) resolve(socket)
      else reject(error)
    })
  })
}
