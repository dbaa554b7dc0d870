/** `GET /billing/plans`, an endpoint of the plugin billing. */
import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import { errorResponses } from '../../lib/http/error-schemas.js'
import { named } from '../../lib/validation/named-schema.js'
import { Plan, type Plans } from '../../lib/plans/plans.js'

const List = named(
  'Plans',
  Type.Object({ plans: Type.Array(Plan, { description: 'From the lowest to the highest; an upgrade is one further down the list.' }) })
)

export function planRoutes (app: FastifyInstance, plans: Plans): void {
  const answer = { plans: plans.all }

  app.get('/billing/plans', {
    config: { access: 'public' },
    schema: {
      tags: ['Billing'],
      summary: 'List plans',
      security: [],
      response: { 200: List, ...errorResponses(429, 500) }
    }
  }, () => answer)
}
