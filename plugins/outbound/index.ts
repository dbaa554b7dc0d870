/**
 * Calls to other services: `app.outbound` (DESIGN 9). A service plugin (fp); it needs no other. What tenants aim reaches
 * public addresses only, and what the platform lists.
 */
import type { FastifyInstance } from 'fastify'
import type { Outbound } from './outbound.js'
import type { Lookup } from './lookup.js'
import fp from 'fastify-plugin'
import { compileEgress } from '../../lib/egress.js'
import { createOutbound } from './service.js'

export type { Lookup } from './lookup.js'
export type { Outbound, OutboundAnswer, OutboundRequest } from './outbound.js'

declare module 'fastify' {
  interface FastifyInstance {
    outbound: Outbound
  }
}

export interface OutboundOptions {
  /** Where calls may go that tenants aim. Default: to public addresses. */
  readonly egress?: {
    /** Hosts, addresses and CIDR ranges, each with an optional port, that may be called although they are private. */
    readonly allow?: readonly string[] | undefined
  } | undefined
  /** Resolves a name to all of its addresses. Default: the name servers; the system's resolver for names that `allow` lists. */
  readonly lookup?: Lookup | undefined
  /** The clock, in milliseconds since 1970. Default: the system's. */
  readonly now?: (() => number) | undefined
}

/** Rejects for an entry of `egress.allow` that is none. */
export async function outbound (app: FastifyInstance, { egress, lookup, now = Date.now }: OutboundOptions): Promise<void> {
  const service = createOutbound({ rule: compileEgress(egress?.allow), lookup, now })
  app.decorate('outbound', service)
  app.addHook('onClose', () => service.close())
}

export default fp(outbound, { name: 'tenantry-outbound', fastify: '5.x' })
