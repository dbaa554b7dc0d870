/** `GET /billing/plans` (SPEC "Plan"). A route group: it registers an endpoint and decorates nothing. Needs the plugin plans. */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { Type } from 'typebox'
import { Plan } from '../../lib/plans.js'
import conventions, { errorResponses } from '../conventions/index.js'
import { requireDecorator } from '../../lib/plugin/requirement.js'
import { named } from '../../lib/named-schema.js'

const List = named('Plans', Type.Object({ plans: Type.Array(Plan, { description: 'From the lowest to the highest; an upgrade is one further down the list.' }) }))

export async function planRoutes (app: FastifyInstance): Promise<void> {
  requireDecorator(app, 'plans', 'plans', 'plans', 'planRoutes')
  await app.register(conventions)
  const answer = { plans: app.plans.all }

  app.get('/billing/plans', {
    config: { access: 'public' },
    schema: { tags: ['Billing'], summary: 'The plans, and what each includes', security: [], response: { 200: List, ...errorResponses(429, 500) } }
  }, () => answer)
}

export default fp(planRoutes, { name: 'tenantry-plan-routes', fastify: '5.x', encapsulate: true })
