/** Limits per address for endpoints where callers without a token can guess passwords, tokens and addresses. */
import type { RateLimitRule } from './rules.js'

const minute = 60_000 // ms

export const triesPerMinute: RateLimitRule = { max: 60, windowMs: minute }
export const triesPerHour: RateLimitRule = { max: 60, windowMs: 60 * minute }
