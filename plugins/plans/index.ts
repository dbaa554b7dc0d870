/**
 * Plans: `app.plans`, what each tier includes (DESIGN 7). A service plugin (fp) that needs no other; register it before
 * those that hold tenants to their plans. `planRoutes`, beside it, are its endpoint.
 */
import type { FastifyInstance } from 'fastify'
import type { Plans as Changes } from '../../lib/config/schema/plans.js'
import fp from 'fastify-plugin'
import { createPlans, type Plans } from '../../lib/plans.js'

export { default as planRoutes } from './routes.js'
export type { Plan, Plans } from '../../lib/plans.js'

declare module 'fastify' {
  interface FastifyInstance {
    plans: Plans
  }
}

export interface PlansOptions {
  /** The document's `plans`: by tier, what differs from the built-in plans. Default: nothing. */
  readonly plans?: Changes | undefined
}

export async function plans (app: FastifyInstance, options: PlansOptions): Promise<void> {
  app.decorate('plans', createPlans(options.plans))
}

export default fp(plans, { name: 'tenantry-plans', fastify: '5.x' })
