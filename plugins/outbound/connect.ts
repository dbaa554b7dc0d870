/**
 * Connections to where the egress rule lets calls go. It is asked when a connection is made, of the address
 * that is then connected to: what a name resolves to a moment later changes nothing.
 */
import type { EgressRule } from '../../lib/http/egress.js'
import type { Lookup } from './lookup.js'
import type { buildConnector } from 'undici'
import { isIP } from 'node:net'
import { failure } from '../../lib/errors.js'

const maxAddresses = 3 // of a name that are tried
const firstMs = 2000 // for each that others follow
const lastMs = 5000

type Connector = buildConnector.connector
type Socket = Extract<Parameters<buildConnector.Callback>, [null, unknown]>[1]

export interface GuardOptions {
  /** undici's. */
  readonly build: typeof buildConnector
  readonly rule: EgressRule
  /** Of names that the rule lists, and of all others. */
  readonly listed: Lookup
  readonly strangers: Lookup
  /** Ends connections, those that are being made too. */
  readonly signal: AbortSignal
}

/** `open`: connections of it that are open now. */
export interface Guard {
  readonly connector: Connector
  readonly open: number
}

/** A connector whose error is `addressRefused` where any address of the host is one that the rule does not permit. */
export function createGuard ({ build, rule, listed, strangers, signal }: GuardOptions): Guard {
  const first = build({ timeout: firstMs, signal })
  const last = build({ timeout: lastMs, signal })
  let open = 0

  /** Addresses that may be connected to. */
  async function addressesOf (hostname: string, port: number): Promise<readonly string[]> {
    if (isIP(hostname) !== 0) {
      if (!rule.permits(hostname, port)) throw failure('addressRefused')
      return [hostname]
    }
    const host = hostname.toLowerCase().replace(/\.$/, '')
    if (rule.lists(host, port)) return (await listed(host)).slice(0, maxAddresses)
    if (host === 'localhost' || host.endsWith('.localhost')) throw failure('addressRefused')
    const addresses = await strangers(host)
    // One that is private among others is no accident: which of them is taken would be chance.
    if (!addresses.every((address) => rule.permits(address, port))) throw failure('addressRefused')
    return addresses.slice(0, maxAddresses)
  }

  async function connect (options: buildConnector.Options): Promise<Socket> {
    const addresses = await addressesOf(options.hostname, Number(options.port) || (options.protocol === 'https:' ? 443 : 80))
    let error: unknown = new Error('the name has no address')
    for (const [index, hostname] of addresses.entries()) {
      try {
        // The name stays what it is for the certificate: undici takes it from `host`.
        return await attempt(index === addresses.length - 1 ? last : first, { ...options, hostname })
      } catch (failed) {
        error = failed
      }
    }
    throw error
  }

  return {
    connector (options, callback) {
      connect(options).then((socket) => {
        open++
        socket.once('close', () => {
          open--
        })
        callback(null, socket)
      }, (error: unknown) => callback(error instanceof Error ? error : new Error('no connection'), null))
    },
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
