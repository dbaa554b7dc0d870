/** The accounting of a call: tokens and cost are reserved before it, and settled after it. */
import type { FastifyInstance } from 'fastify'
import type { Histogram } from 'prom-client'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { costOf, type Tokens, usageOf } from '../../lib/models/tokens.js'
import type { ModelInfo, ModelUsage, ModelUser } from '../../lib/models/types.js'
import { optional } from '../../lib/plugin/define.js'
import { createCounter, whenMeasured } from '../metrics/counter.js'
import type { Taken } from '../resource-limits/service.js'
import type { JointReservation } from '../usage/reservations.js'

const resource = 'llm'

export interface Payer {
  readonly tenant: Owner
  readonly user: ModelUser | null
  readonly price: ModelInfo['price']
}

/** The reservation of a call. Only the first call of either method counts. Neither rejects. */
export interface Charge {
  settle(tokens: Tokens): Promise<ModelUsage>
  release(): Promise<void>
}

export type Charges = ReturnType<typeof createCharges>

const nothing: Taken = { give: async () => {}, settle: async () => {} }

export function createCharges (app: FastifyInstance) {
  const [usage, limits] = [optional(app, 'usage'), optional(app, 'resourceLimits')]

  async function take ({ tenant, user }: Payer, metric: string, amount: number): Promise<Taken> {
    const found = user === null ? null : limits()
    return found === null || user === null ? nothing : await found.take({ ...user, tenant }, { resource, metric, amount })
  }

  return {
    /** Counts one call. Rejects with `resourceLimit`. */
    count: (payer: Payer): Promise<Pick<Taken, 'give'>> => take(payer, 'count', 1),
    /** Reserves the most that a request can use. If it rejects, with `planLimit` or `resourceLimit`, nothing is reserved. */
    async reserve (payer: Payer, tokens: Tokens): Promise<Charge> {
      const cost = costOf(tokens, payer.price)
      const total = tokens.input + tokens.output
      const reserved = await Promise.allSettled([
        take(payer, 'tokens', total),
        usage()?.reserveAll(payer.tenant, { llm_tokens: total, ...cost > 0 && { ai_cost: cost } }) ?? null
      ])
      const [taken, reservation] = reserved
      if (taken.status === 'fulfilled' && reservation.status === 'fulfilled') return chargeOf(payer, taken.value, reservation.value)
      await Promise.all([
        taken.status === 'fulfilled' && taken.value.give(),
        reservation.status === 'fulfilled' && reservation.value?.release()
      ])
      throw reserved.find((outcome) => outcome.status === 'rejected')?.reason
    }
  }
}

function chargeOf ({ price }: Payer, taken: Taken, reservation: JointReservation | null): Charge {
  return {
    async settle (tokens) {
      const cost = costOf(tokens, price)
      const total = tokens.input + tokens.output
      await Promise.all([taken.settle(total), reservation?.settle({ llm_tokens: total, ai_cost: cost })])
      return usageOf(tokens, cost)
    },
    async release () {
      await Promise.all([taken.give(), reservation?.release()])
    }
  }
}

const buckets = [0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 32] // s to the first token

type Labelled = Pick<ModelInfo, 'provider' | 'id'>

export type ModelFigures = ReturnType<typeof createFigures>

export function createFigures (app: FastifyInstance) {
  const ofModel = ['provider', 'model'] as const
  const countTokens = createCounter(app, {
    name: 'tenantry_llm_tokens_total',
    help: 'Tokens of calls of models.',
    labelNames: [...ofModel, 'kind']
  })
  const countCost = createCounter(app, {
    name: 'tenantry_llm_cost_usd_total',
    help: 'Cost of calls of models, in USD.',
    labelNames: ofModel
  })
  const countError = createCounter(app, {
    name: 'tenantry_llm_errors_total',
    help: 'Calls of models that failed at the provider, by the code of the error.',
    labelNames: [...ofModel, 'code']
  })
  let first: Histogram<typeof ofModel[number]> | null = null
  whenMeasured(app, ({ Histogram }, registry) => {
    first = new Histogram({
      name: 'tenantry_llm_time_to_first_token_seconds',
      help: 'Time from the request to a chat model to the first token.',
      labelNames: ofModel,
      buckets,
      registers: [registry]
    })
  })
  return {
    used ({ provider, id: model }: Labelled, { inputTokens, outputTokens, cost }: ModelUsage): void {
      countTokens({ provider, model, kind: 'input' }, inputTokens)
      countTokens({ provider, model, kind: 'output' }, outputTokens)
      countCost({ provider, model }, cost)
    },
    /** Seconds from the request to the first token. */
    began ({ provider, id: model }: Labelled, seconds: number): void {
      first?.observe({ provider, model }, seconds)
    },
    /** `code`: the code in the error catalogue. */
    failed ({ provider, id: model }: Labelled, code: string): void {
      countError({ provider, model, code })
    }
  }
}
