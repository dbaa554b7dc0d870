/**
 * Durations as a sparse histogram of buckets that grow by a constant factor, so that whatever lies in a bucket differs from
 * the value that stands for it by 2.5 % at most (DDSketch: Masson, Rim, Lee 2019). Two are merged by adding their counts.
 */

export const relativeError = 0.025
const shortest = 0.05 // ms; shorter durations are in the bucket 0, and count as this
const longest = 3_600_000 // ms; what takes longer is in the last bucket
const factor = (1 + relativeError) / (1 - relativeError)
const logFactor = Math.log(factor)

/** The number of the last bucket. */
export const lastBucket = Math.ceil(Math.log(longest / shortest) / logFactor)

/**
 * The bucket of a duration in milliseconds; 0 for what is none. Bucket n holds those above `shortest * factor ** (n - 1)`, up to
 * `shortest * factor ** n`.
 */
export function bucketOf (ms: number): number {
  if (!(ms > shortest)) return 0
  return Math.min(Math.ceil(Math.log(ms / shortest) / logFactor), lastBucket)
}

/** The duration that stands for a bucket, in milliseconds, to a thousandth. */
export function durationOf (bucket: number): number {
  const ms = bucket <= 0 ? shortest : shortest * factor ** bucket * (1 - relativeError)
  return Math.round(ms * 1000) / 1000
}
