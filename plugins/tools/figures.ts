/** Figures of tool calls for Prometheus. Without the plugin metrics nothing is counted. */
import type {} from '../metrics/metrics.js'
import type { FastifyInstance } from 'fastify'
import { optional } from '../../lib/plugin/optional.js'

export type CountCall = (outcome: 'ok' | 'failed') => void

export function createFigures (app: FastifyInstance): CountCall {
  let count: CountCall | null = null
  app.addHook('onReady', async () => {
    const registry = optional(app, 'metrics')()
    if (registry === null) return
    const { Counter } = await import('prom-client')
    const calls = new Counter({
      name: 'tenantry_tool_calls_total',
      help: 'Calls of tools, by outcome.',
      labelNames: ['outcome'] as const,
      registers: [registry]
    })
    count = (outcome) => calls.inc({ outcome })
  })
  return (outcome) => count?.(outcome)
}
