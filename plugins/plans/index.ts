/** Plans: `app.plans`, the limits of each tier. Without it other plugins use the built-in plans. */
import { createPlans, type Plans } from '../../lib/plans/plans.js'
import { definePlugin } from '../../lib/plugin/define.js'
import { section } from '../../lib/plugin/options.js'
import { type Plans as Changes, Plans as PlansSection } from '../../lib/schema/plans.js'

export type { Plan, Plans } from '../../lib/plans/plans.js'

declare module 'fastify' {
  interface FastifyInstance {
    plans: Plans
  }
}

export interface PlansOptions {
  /** The document's `plans`: changes to the built-in plans, by tier. Default: none. */
  readonly plans?: Changes | undefined
}

export default definePlugin<PlansOptions>({
  name: 'plans',
  options: { plans: section(PlansSection) },
  setup (app, options) {
    app.decorate('plans', createPlans(options.plans))
  }
})
