/** The response of `GET /billing/usage`. */
import { type Static, Type } from 'typebox'
import { Percentage, percentageOf, type Plan, unlimited } from '../../lib/plans/plans.js'
import { named } from '../../lib/validation/named-schema.js'
import { allowed, bytesText, microPerUSD } from './metrics.js'
import type { CurrentUsage } from './store.js'

const metric = {
  current: Type.Number(),
  limit: Type.Number({ description: 'The limit of the plan; -1 means unlimited.' }),
  percentage: Percentage
}
const Metric = named('UsageMetric', Type.Object(metric))

export const Report = named(
  'UsageReport',
  Type.Object({
    tenantId: Type.String(),
    plan: Type.String(),
    usage: Type.Object({
      websocket: Type.Object({ connections: Metric, entitiesWatched: Metric, rooms: Metric }),
      fileStorage: Type.Object({
        storage: Type.Object({
          ...metric,
          currentFormatted: Type.String({ examples: ['1.5 MB'] }),
          limitFormatted: Type.String({ examples: ['5 GB', 'Unlimited'] })
        }, { description: 'The size in bytes.' })
      }),
      tenantConfig: Type.Object({ secrets: Metric }),
      ai: Type.Object({ llmTokens: Metric, cost: Metric }, { description: 'Language models in this month (UTC); the cost is in USD.' })
    })
  })
)
export type Report = Static<typeof Report>

export function reportOf (tenantId: string, plan: Plan, { storage, secrets, tokens, cost, gauges }: CurrentUsage): Report {
  const maxStorage = allowed('storage_bytes', plan)
  return {
    tenantId,
    plan: plan.tier,
    usage: {
      websocket: {
        connections: metricOf(gauges.connections, allowed('connections', plan)),
        entitiesWatched: metricOf(gauges.entities_watched, allowed('entities_watched', plan)),
        rooms: metricOf(gauges.rooms, allowed('rooms', plan))
      },
      fileStorage: {
        storage: {
          ...metricOf(storage, maxStorage),
          currentFormatted: bytesText(storage),
          limitFormatted: maxStorage === null ? 'Unlimited' : bytesText(maxStorage)
        }
      },
      tenantConfig: { secrets: metricOf(secrets, plan.limits.tenantConfig.maxSecrets) },
      ai: { llmTokens: metricOf(tokens, allowed('llm_tokens', plan)), cost: metricOf(cost / microPerUSD, plan.limits.ai.maxCostPerMonth) }
    }
  }
}

/** @param given null or -1 for no limit */
function metricOf (current: number, given: number | null): Static<typeof Metric> {
  const limit = given ?? unlimited
  return { current, limit, percentage: percentageOf(current, limit) }
}
