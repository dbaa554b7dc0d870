/** Metrics of other plugins, which count nothing without the plugin metrics. */
import type { FastifyInstance } from 'fastify'
import type { Registry } from 'prom-client'
import { optional } from '../../lib/plugin/define.js'

type PromClient = typeof import('prom-client')

/** Calls `add` when the app is ready and has a registry. prom-client is loaded only then. */
export function whenMeasured (app: FastifyInstance, add: (client: PromClient, registry: Registry) => void): void {
  app.addHook('onReady', async () => {
    const registry = optional(app, 'metrics')()
    if (registry !== null) add(await import('prom-client'), registry)
  })
}

/** A counter by labels. `name` is Prometheus's name; `help` is its description there. */
export function createCounter<Label extends string> (
  app: FastifyInstance,
  options: { name: string, help: string, labelNames: readonly Label[] }
): (labels: Readonly<Record<Label, string>>, amount?: number) => void {
  let count: ReturnType<typeof createCounter<Label>> | null = null
  whenMeasured(app, ({ Counter }, registry) => {
    const counter = new Counter<Label>({ ...options, registers: [registry] })
    count = (labels, amount) => counter.inc(labels, amount)
  })
  return (labels, amount) => count?.(labels, amount)
}

declare module 'fastify' {
  interface FastifyInstance {
    /** The figures of `GET /metrics`: prom-client's registry. */
    metrics: Registry
  }
}
