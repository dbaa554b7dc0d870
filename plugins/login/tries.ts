/**
 * Limits the tries of a password. A try is counted before the check, also for unknown addresses, so that a refusal does not show whether
 * the address has a user.
 */
import type { AttemptLimiter, AttemptRule } from '../../lib/database/attempt-limiter.js'
import { isFailure } from '../../lib/errors.js'
import { addressKey } from '../../lib/http/account.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'

const windowMs = 900_000 // 15 minutes

/** From one network address: guesses from another address do not lock the user out. */
const fromAddress: AttemptRule = { kind: 'password.address', max: 5, windowMs }
/** From all addresses together, except those that the user has logged in from: guesses are slow then. */
const fromAnywhere: AttemptRule = { kind: 'password', max: 50, windowMs, pauseMs: 60_000 }

/** Addresses of successful logins: an attacker with many addresses takes every attempt of the common count, but none of these. */
const known = 'password.known'
const knownMs = 2_592_000_000 // 30 days

/** The tried password: an account, in a canonical text, and a network address. */
export interface Try {
  readonly tenant: Owner
  readonly account: string
  readonly address: string
}

/**
 * Returns a function that resolves with the result of the check; null for a wrong password, which counts. A check that rejects has tested
 * no password, and does not count. Tries of one account and address take turns, so that none is refused because of others that succeed.
 * Throws `tooManyAttempts`.
 */
export function createPasswordTries (attempts: AttemptLimiter) {
  const last = new Map<string, Promise<unknown>>()

  async function make<Found> ({ tenant, account }: Try, subject: string, check: () => Promise<Found | null>): Promise<Found | null> {
    // In this order, one address can take only its own tries from the common count.
    await attempts.consume(fromAddress, tenant, subject)
    let isCommon = true
    try {
      await attempts.consume(fromAnywhere, tenant, account)
    } catch (error) {
      isCommon = false
      if (!isFailure(error, 'tooManyAttempts') || !await attempts.isRemembered(known, tenant, subject)) {
        // Tries of others must not lock this address.
        await attempts.refund(fromAddress, tenant, subject)
        throw error
      }
    }
    let found: Found | null
    try {
      found = await check()
    } catch (error) {
      await attempts.refund(fromAddress, tenant, subject)
      if (isCommon) await attempts.refund(fromAnywhere, tenant, account)
      throw error
    }
    if (found === null) return null
    await attempts.reset(fromAddress, tenant, subject)
    // Only this try: otherwise each login of the user would return all tries to an attacker with many addresses.
    if (isCommon) await attempts.refund(fromAnywhere, tenant, account)
    await attempts.remember(known, tenant, subject, knownMs)
    return found
  }

  return async <Found>(given: Try, check: () => Promise<Found | null>): Promise<Found | null> => {
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
