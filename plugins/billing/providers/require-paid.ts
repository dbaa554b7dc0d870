/** Changes of a subscription whose payment is missing. */
import { failure } from '../../../lib/errors.js'

/** Throws `providerRefused` if a payment is missing: a change now would credit the rest of a period that was never paid. */
export function requirePaid (status: string): void {
  if (status !== 'past_due' && status !== 'unpaid') return
  throw failure('providerRefused', { message: 'A payment of the subscription is missing: pay it first' })
}
