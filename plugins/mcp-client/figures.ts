/** Figures of calls for Prometheus. Without the plugin metrics nothing is counted. */
import type {} from '../metrics/metrics.js'
import type { FastifyInstance } from 'fastify'
import { optional } from '../../lib/plugin/optional.js'

export type CountCall = (server: string, outcome: 'ok' | 'failed') => void

export function createFigures (app: FastifyInstance): CountCall {
  let count: CountCall | null = null
  app.addHook('onReady', async () => {
    const registry = optional(app, 'metrics')()
    if (registry === null) return
    const { Counter } = await import('prom-client')
    const calls = new Counter({
      name: 'tenantry_mcp_calls_total',
      help: 'Calls of tools of MCP servers, by server and outcome.',
      labelNames: ['server', 'outcome'] as const,
      registers: [registry]
    })
    count = (server, outcome) => calls.inc({ server, outcome })
  })
  return (server, outcome) => count?.(server, outcome)
}
