/** What a plan includes of secrets (SPEC "Secrets by plan"), and the refusals beyond it. */
import { failure, type TenantryError } from '../../lib/errors.js'
import { nextTier, plans, tiers, unlimited, type Plan } from '../../lib/plans.js'

// Of one tenant, whatever its plan: every server that serves it holds its values in memory.
export const maxSecretsOfAny = 10_000
export const maxBytesOfAny = 8_388_608

/** The plan of that name; `free` for one that is not known. */
export function planOf (name: string | undefined): Plan {
  return plans[tiers.find((tier) => tier === name) ?? 'free']
}

/** 402 where one more than `count` is too many for the plan, 409 where it is for any. */
export function refuseBeyond ({ tier, limits: { tenantConfig: { maxSecrets } } }: Plan, count: number): void {
  if (count >= maxSecretsOfAny) throw failure('conflict', { message: `A tenant has at most ${maxSecretsOfAny} secrets: delete some that are no longer used` })
  if (maxSecrets === unlimited || count < maxSecrets) return
  const fits = (plan: Plan) => plan.limits.tenantConfig.maxSecrets === unlimited || plan.limits.tenantConfig.maxSecrets > count
  const next = nextTier(tier, fits)
  throw refusal(`The plan "${tier}" includes ${maxSecrets} secrets`, next, next === null ? null : plans[next].limits.tenantConfig.maxSecrets)
}

/** 409 where a tenant's secrets would take so many bytes. */
export function refuseBytes (bytes: number): void {
  if (bytes > maxBytesOfAny) throw failure('conflict', { message: `The secrets of a tenant have at most ${maxBytesOfAny} bytes in all, encrypted and with their metadata: delete some that are no longer used` })
}

/** 402 where the plan has no rotation. */
export function refuseRotation ({ tier, limits }: Plan): void {
  if (limits.tenantConfig.rotation) return
  throw refusal(`The plan "${tier}" does not include rotation of secrets`, nextTier(tier, (plan) => plan.limits.tenantConfig.rotation), unlimited)
}

function refusal (message: string, plan: string | null, limit: number | null): TenantryError {
  return failure('planLimit', { message, extras: { allowed: false, upgrade: plan === null ? null : { plan, limit } } })
}
