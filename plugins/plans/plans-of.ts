/** The plans of an app: those of the plugin plans, else the built-in ones. A plugin that calls it declares `after: ['plans']`. */
import type { FastifyInstance } from 'fastify'
import { builtInPlans, type Plans } from '../../lib/plans/plans.js'
import { optional } from '../../lib/plugin/define.js'

export function plansOf (app: FastifyInstance): Plans {
  return optional(app, 'plans')() ?? builtInPlans
}
