/**
 * Durations as a sparse histogram whose buckets grow by a constant factor, so that each value differs from its bucket's value by at most
 * 2.5 % (DDSketch: Masson, Rim, Lee 2019). Two are merged by adding their counts.
 */

export const relativeError = 0.025
const shortest = 0.05 // ms; shorter durations are in the bucket 0, with this value
const longest = 3_600_000 // ms; longer durations are in the last bucket
const factor = (1 + relativeError) / (1 - relativeError)
const logFactor = Math.log(factor)

export const lastBucket = Math.ceil(Math.log(longest / shortest) / logFactor)

/**
 * The bucket of a duration in milliseconds; 0 for an invalid one. Bucket n has those above `shortest * factor ** (n - 1)`, up to `shortest
 * * factor ** n`.
 */
export function bucketOf (ms: number): number {
  if (!(ms > shortest)) return 0
  return Math.min(Math.ceil(Math.log(ms / shortest) / logFactor), lastBucket)
}

/** The value of a bucket, in milliseconds, to a thousandth. */
export function durationOf (bucket: number): number {
  const ms = bucket <= 0 ? shortest : shortest * factor ** bucket * (1 - relativeError)
  return Math.round(ms * 1000) / 1000
}
