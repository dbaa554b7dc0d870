/** Calls to other services: `app.outbound`. Addresses that tenants choose must be public, or listed by the platform. */
import type { Lookup } from '../../lib/concurrency/shared-lookup.js'
import { compileEgress } from '../../lib/http/egress.js'
import { definePlugin, optional } from '../../lib/plugin/define.js'
import { callback, type ClockOption, section } from '../../lib/plugin/options.js'
import { Egress as EgressSection } from '../../lib/schema/tenancy.js'
import type { Outbound } from './outbound.js'
import { createOutbound } from './service.js'

export type { Lookup } from '../../lib/concurrency/shared-lookup.js'
export type { Outbound, OutboundRequest, OutboundResponse } from './outbound.js'

declare module 'fastify' {
  interface FastifyInstance {
    outbound: Outbound
  }
}

export interface OutboundOptions extends ClockOption {
  /** The addresses that calls of tenants may reach. Default: public addresses. */
  readonly egress?: {
    /** Private hosts, addresses and CIDR ranges, each with an optional port, that may be called. */
    readonly allow?: readonly string[] | undefined
  } | undefined
  /** Resolves a name to all of its addresses. Default: the name servers; the system's resolver for names that `allow` lists. */
  readonly lookup?: Lookup | undefined
}

export default definePlugin<OutboundOptions>({
  name: 'outbound',
  options: { egress: section(EgressSection), lookup: callback, now: callback },
  setup (app, { egress, lookup, now = () => performance.now() }) {
    const service = createOutbound(compileEgress(egress?.allow), lookup, now)
    app.decorate('outbound', service)
    optional(app, 'stopping')()?.ending.addEventListener('abort', service.endCalls)
    app.addHook('onClose', () => service.close())
  }
})
