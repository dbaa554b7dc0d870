/** Prometheus metrics of models. Without the plugin metrics nothing is counted. */
import type { FastifyInstance } from 'fastify'
import type { ModelInfo, ModelUsage } from '../../lib/models/types.js'
import { whenMeasured } from '../metrics/counter.js'

const buckets = [0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 32] // s to the first token

type Labelled = Pick<ModelInfo, 'provider' | 'id'>

export interface ModelFigures {
  used(model: Labelled, usage: ModelUsage): void
  /** Seconds from the request to the first token. */
  began(model: Labelled, seconds: number): void
  /** `code`: the code in the error catalogue. */
  failed(model: Labelled, code: string): void
}

export function createFigures (app: FastifyInstance): ModelFigures {
  let figures: ModelFigures | null = null
  whenMeasured(app, ({ Counter, Histogram }, registry) => {
    const registers = [registry]
    const of = ['provider', 'model'] as const
    const tokens = new Counter({
      name: 'tenantry_llm_tokens_total',
      help: 'Tokens of calls of models.',
      labelNames: [...of, 'kind'],
      registers
    })
    const cost = new Counter({ name: 'tenantry_llm_cost_usd_total', help: 'Cost of calls of models, in USD.', labelNames: of, registers })
    const first = new Histogram({
      name: 'tenantry_llm_time_to_first_token_seconds',
      help: 'Time from the request to a chat model to the first token.',
      labelNames: of,
      buckets,
      registers
    })
    const errors = new Counter({
      name: 'tenantry_llm_errors_total',
      help: 'Calls of models that failed at the provider, by the code of the error.',
      labelNames: [...of, 'code'],
      registers
    })
    figures = {
      used ({ provider, id: model }, usage) {
        tokens.inc({ provider, model, kind: 'input' }, usage.inputTokens)
        tokens.inc({ provider, model, kind: 'output' }, usage.outputTokens)
        cost.inc({ provider, model }, usage.cost)
      },
      began: ({ provider, id: model }, seconds) => first.observe({ provider, model }, seconds),
      failed: ({ provider, id: model }, code) => errors.inc({ provider, model, code })
    }
  })
  return {
    used: (model, usage) => figures?.used(model, usage),
    began: (model, seconds) => figures?.began(model, seconds),
    failed: (model, code) => figures?.failed(model, code)
  }
}
