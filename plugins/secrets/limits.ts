/** The number of secrets in a plan, and the refusals beyond it. */
import { failure } from '../../lib/errors.js'
import { type Plan, planLimit, type Plans, unlimited } from '../../lib/plans/plans.js'
import { maxSecretsOfAny } from '../../lib/schema/plans.js'

/** Earlier values of a key that are accepted beside the current one: each costs a signature check. */
const maxEarlierValues = 10

/** The bytes of a tenant's values on any plan: every server that serves the tenant holds them in memory. */
const maxBytesOfAny = 8_388_608

/** 402 if one more than `count` exceeds the plan, 409 if it exceeds every plan. */
export function refuseBeyond (plans: Plans, { tier, limits: { tenantConfig: { maxSecrets } } }: Plan, count: number): void {
  if (count >= maxSecretsOfAny) {
    throw failure('conflict', { message: `A tenant has at most ${maxSecretsOfAny} secrets: delete an unused secret first` })
  }
  if (maxSecrets === unlimited || count < maxSecrets) return
  throw planLimit(
    `The plan "${tier}" includes ${maxSecrets} secret${maxSecrets === 1 ? '' : 's'}`,
    plans.upgrade(tier, ({ limits }) => limits.tenantConfig.maxSecrets, count + 1)
  )
}

/** 409 if the tenant's secrets would exceed the maximum of bytes. */
export function refuseBytes (bytes: number): void {
  if (bytes > maxBytesOfAny) {
    throw failure('conflict', {
      message:
        `The secrets of a tenant have at most ${maxBytesOfAny} bytes in total, encrypted and with their metadata: delete unused secrets first`
    })
  }
}

/** 409 if the key has the maximum of accepted earlier values. `ends`: the end of each, the next one first. */
export function refuseEarlier (ends: readonly Date[]): void {
  const [next] = ends
  if (next === undefined || ends.length < maxEarlierValues) return
  throw failure('conflict', {
    message:
      `At most ${maxEarlierValues} previous values of a secret are accepted at the same time: wait until the next one expires at ${next.toISOString()}, send \`gracePeriodDays\` 0, or revoke all with \`endEarlier\``
  })
}

/** 402 if the plan does not include rotation. */
export function refuseRotation (plans: Plans, { tier, limits }: Plan): void {
  if (limits.tenantConfig.rotation) return
  // A plan includes rotation or not; rotations are not counted.
  throw planLimit(
    `The plan "${tier}" does not include rotation of secrets`,
    plans.upgrade(tier, ({ limits }) => limits.tenantConfig.rotation ? unlimited : 0, 1)
  )
}
