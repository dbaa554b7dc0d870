/** The two pools of connections: to tenants' addresses, behind the egress rule, and to trusted services. */
import type { EgressRule } from '../../lib/http/egress.js'
import type { Agent } from 'undici'
import { setMaxListeners } from 'node:events'
import { createGuard, type Guard } from './connect.js'
import { lookUpListed, lookUpUnlisted, type Lookup } from './lookup.js'

const connectMs = 5000
const keepMs = 4000 // an idle connection
const trustedKeepMs = 60_000 // an idle connection, if the service announces that it keeps it

export interface OpenPools {
  readonly guarded: Agent
  readonly trusted: Agent
  readonly guard: Guard
}

export interface Pools {
  /** The pools are created, and undici is loaded, at the first call. */
  open(): Promise<OpenPools>
  /** Ends all connections. */
  close(): Promise<void>
}

export function createPools (rule: EgressRule, lookup: Lookup | undefined): Pools {
  const connections = new AbortController()
  // Each connection adds listeners.
  setMaxListeners(0, connections.signal)
  let opened: Promise<OpenPools> | undefined

  async function make (): Promise<OpenPools> {
    const { Agent, buildConnector } = await import('undici')
    const { signal } = connections
    const guard = createGuard({ build: buildConnector, rule, listed: lookup ?? lookUpListed, unlisted: lookup ?? lookUpUnlisted, signal })
    return {
      guard,
      guarded: new Agent({ connect: guard.connector, keepAliveTimeout: keepMs, keepAliveMaxTimeout: keepMs }),
      trusted: new Agent({ connect: { timeout: connectMs, signal }, keepAliveTimeout: keepMs, keepAliveMaxTimeout: trustedKeepMs })
    }
  }

  return {
    open: () => (opened ??= make()),
    async close () {
      if (opened !== undefined) {
        const { guarded, trusted } = await opened
        await Promise.all([guarded.destroy(), trusted.destroy()])
      }
      connections.abort()
    }
  }
}
