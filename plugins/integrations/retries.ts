/** The retries of a call. */
import { isFailure } from '../../lib/errors.js'

export const maxTries = 3
const firstWait = 250 // ms; each wait after it is twice as long

/** The service was too busy, or failed: a retry may succeed. */
export function isTransient (status: number): boolean {
  return status === 429 || status >= 500
}

/** There was no connection, or it was lost: after a response, however wrong, there is no retry. */
export function isLost (error: unknown): boolean {
  return isFailure(error, 'providerFailed') && error.cause instanceof Error
}

/**
 * Milliseconds after the try of this number, starting at 1: the service's `Retry-After`, else a doubling wait, randomised so that calls
 * that failed together do not return together.
 */
export function waitAfter (tries: number, retryAfter: string | undefined, now: number): number {
  const asked = retryAfter === undefined ? null : askedFor(retryAfter.trim(), now)
  return asked ?? firstWait * 2 ** (tries - 1) * (0.5 + Math.random() / 2)
}

/** Seconds, or a date of HTTP (RFC 9110, 10.2.3); null for other values. */
function askedFor (text: string, now: number): number | null {
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1000
  const date = /^[A-Z][a-z]{2}, /.test(text) ? Date.parse(text) : NaN
  return Number.isNaN(date) ? null : Math.max(0, date - now)
}
