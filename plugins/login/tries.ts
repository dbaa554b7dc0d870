/**
 * How often a password may be tried (DESIGN 5 "Login"). A try is counted before the password is checked, for addresses of
 * nobody too, so that a refusal tells nothing.
 */
import type { Attempts, AttemptRule } from '../../lib/attempts.js'
import { addressKey } from '../rate-limit/client.js'

const windowMs = 900_000 // 15 minutes

/** From one address: whoever guesses elsewhere locks nobody out with it. */
const fromAddress: AttemptRule = { kind: 'password.address', max: 5, windowMs }
/** From all addresses together: guesses are slow then, and the user still gets in. */
const fromAnywhere: AttemptRule = { kind: 'password', max: 50, windowMs, pauseMs: 60_000 }

/** What is tried: the password of an account, by whatever text there is one of it, from an address of the network. */
export interface Try {
  readonly tenant: string
  readonly account: string
  readonly address: string
}

export interface Tries {
  /** Throws `tooManyAttempts`. */
  take (given: Try): Promise<void>
  /** It was the password. */
  succeeded (given: Try): Promise<void>
  /** Nobody looked at the password. */
  notMade (given: Try): Promise<void>
}

/** @param attemptsOf those of a tenant, on its own turn of the database */
export function createTries (attemptsOf: (tenant: string) => Attempts): Tries {
  const subjectOf = ({ account, address }: Try) => `${account} ${addressKey(address)}`

  return {
    async take (given) {
      const { tenant, account } = given
      const attempts = attemptsOf(tenant)
      // In this order one address takes no more than its own tries of those that all have together.
      await attempts.take(fromAddress, tenant, subjectOf(given))
      try {
        await attempts.take(fromAnywhere, tenant, account)
      } catch (error) {
        // What others have tried must not lock this address.
        await attempts.giveBack(fromAddress, tenant, subjectOf(given))
        throw error
      }
    },

    async succeeded (given) {
      const { tenant, account } = given
      const attempts = attemptsOf(tenant)
      await attempts.forgive(fromAddress, tenant, subjectOf(given))
      // Only this one: whoever guesses from many addresses would else have all tries again with each login of the user.
      await attempts.giveBack(fromAnywhere, tenant, account)
    },

    async notMade (given) {
      const { tenant, account } = given
      const attempts = attemptsOf(tenant)
      await attempts.giveBack(fromAddress, tenant, subjectOf(given))
      await attempts.giveBack(fromAnywhere, tenant, account)
    }
  }
}
