/** The plans that a plugin goes by: those of the plugin plans, else the built-in ones. */
import type {} from './index.js'
import type { FastifyInstance } from 'fastify'
import { builtInPlans, type Plans } from '../../lib/plans.js'
import { hasPlugin } from '../../lib/plugin/requirement.js'

/** @param wanting the plugin that asks, and `routes` its route group, as in `requireDecorator` */
export function plansOf (app: FastifyInstance, wanting: string, routes?: string): Plans {
  return hasPlugin(app, 'plans', 'plans', wanting, routes) ? app.plans : builtInPlans
}
