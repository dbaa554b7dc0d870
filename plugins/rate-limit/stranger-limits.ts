/** Limits of an address on endpoints that callers without a token try passwords, tokens and addresses at. */
import type { RateLimitRule } from './rules.js'

const minute = 60_000 // ms

export const triesPerMinute: RateLimitRule = { max: 60, windowMs: minute }
export const triesPerHour: RateLimitRule = { max: 60, windowMs: 60 * minute }
