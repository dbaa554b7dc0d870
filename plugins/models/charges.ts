/** The accounting of a call: tokens and cost are reserved before it, and settled after it. */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { ModelInfo, ModelUsage, ModelUser } from '../../lib/models/types.js'
import type { ResourceLimits, Taken } from '../resource-limits/service.js'
import type { JointReservation } from '../usage/reservations.js'
import type { Usage } from '../usage/service.js'
import { costOf, usageOf, type Tokens } from '../../lib/models/tokens.js'

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

export interface Charges {
  /** Counts one call. Rejects with `resourceLimit`. */
  count(payer: Payer): Promise<Pick<Taken, 'give'>>
  /** Reserves the most that a request to the provider can use. If it rejects, with `planLimit` or `resourceLimit`, nothing is reserved. */
  reserve(payer: Payer, tokens: Tokens): Promise<Charge>
}

export interface ChargesParts {
  /** null without the plugin: then nothing is metered. */
  readonly usage: () => Pick<Usage, 'reserveAll'> | null
  readonly limits: () => Pick<ResourceLimits, 'take'> | null
}

const nothing: Taken = { give: async () => {}, settle: async () => {} }

export function createCharges ({ usage, limits }: ChargesParts): Charges {
  async function take ({ tenant, user }: Payer, metric: string, amount: number): Promise<Taken> {
    const found = user === null ? null : limits()
    return found === null || user === null ? nothing : await found.take({ ...user, tenant }, { resource, metric, amount })
  }

  return {
    count: (payer) => take(payer, 'count', 1),
    async reserve (payer, tokens) {
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
