/**
 * Limits the tries of a password. A try is counted before the password is checked, for unknown addresses too, so that a refusal
 * does not show whether a user has the address.
 */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { AttemptLimiter, AttemptRule } from '../../lib/database/attempt-limiter.js'
import { addressKey } from '../../lib/http/address-key.js'

const windowMs = 900_000 // 15 minutes

/** From one address: guesses from another address do not lock the user out. */
const fromAddress: AttemptRule = { kind: 'password.address', max: 5, windowMs }
/** From all addresses together: guesses are slow then, and the user still gets in. */
const fromAnywhere: AttemptRule = { kind: 'password', max: 50, windowMs, pauseMs: 60_000 }

/** What is tried: the password of an account, by whatever text there is one of it, from an address of the network. */
export interface Try {
  readonly tenant: Owner
  readonly account: string
  readonly address: string
}

export interface Tries {
  /**
   * What the check finds; null where the password is wrong, which counts. A check that rejects has looked at no password, and
   * does not count. Those of one account and address take turns, so that none is refused for others that turn out right.
   * Throws `tooManyAttempts`.
   */
  make<Found>(given: Try, check: () => Promise<Found | null>): Promise<Found | null>
}

/** @param attemptsOf those of a tenant, on its own turn of the database */
export function createTries (attemptsOf: (tenant: Owner) => AttemptLimiter): Tries {
  const last = new Map<string, Promise<unknown>>()

  async function make<Found> ({ tenant, account }: Try, subject: string, check: () => Promise<Found | null>): Promise<Found | null> {
    const attempts = attemptsOf(tenant)
    // In this order one address takes no more than its own tries of those that all have together.
    await attempts.consume(fromAddress, tenant, subject)
    try {
      await attempts.consume(fromAnywhere, tenant, account)
    } catch (error) {
      // What others have tried must not lock this address.
      await attempts.refund(fromAddress, tenant, subject)
      throw error
    }
    let found: Found | null
    try {
      found = await check()
    } catch (error) {
      await attempts.refund(fromAddress, tenant, subject)
      await attempts.refund(fromAnywhere, tenant, account)
      throw error
    }
    if (found === null) return null
    await attempts.reset(fromAddress, tenant, subject)
    // Only this try: else each login of the user would give an attacker with many addresses all tries back.
    await attempts.refund(fromAnywhere, tenant, account)
    return found
  }

  return {
    async make (given, check) {
      const subject = `${given.account} ${addressKey(given.address)}`
      const key = `${given.tenant} ${subject}`
      const before = last.get(key)
      const run = () => make(given, subject, check)
      const own = before === undefined ? run() : before.then(run, run)
      last.set(key, own)
      try {
        return await own
      } finally {
        if (last.get(key) === own) last.delete(key)
      }
    }
  }
}
