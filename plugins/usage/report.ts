/** The responses of the endpoints of usage. */
import { type Static, Type } from 'typebox'
import { Percentage, percentageOf, type Plan, unlimited } from '../../lib/plans/plans.js'
import { named } from '../../lib/validation/named-schema.js'
import { allowed, bytesText, microPerUSD } from './metrics.js'
import type { CurrentUsage } from './store.js'

const Calls = Type.Number({ description: 'The number of requests, including failed requests, without requests rejected by a rate limit.' })
const Tokens = Type.Number({ description: 'The number of tokens of language models.' })

export const Summary = named(
  'UsageSummary',
  Type.Object({
    tenant_id: Type.String(),
    period: Type.String({ description: 'The month in UTC: `YYYY-MM`.', examples: ['2026-02'] }),
    api_calls: Calls,
    llm_tokens: Tokens,
    storage_bytes: Type.Number({ description: 'The current size of all files, in bytes.' }),
    bandwidth_bytes: Type.Number({ description: 'The size of the bodies of requests and responses, in bytes.' })
  })
)

export type Summary = Static<typeof Summary>

export const HistoryEntry = Type.Object({ date: Type.String({ format: 'date' }), api_calls: Calls, llm_tokens: Tokens })
/** The usage of a day. */
export type HistoryEntry = Static<typeof HistoryEntry>

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
