import t from 'tap'
import { bucketOf, durationOf, lastBucket, relativeError } from '../../../plugins/analytics/lines.js'

t.test("a bucket's value differs from the duration by at most 2.5 %, from a twentieth of a millisecond to an hour", async (t) => {
  let worst = 0
  for (let ms = 0.0501; ms < 3_600_000; ms *= 1.0007) worst = Math.max(worst, Math.abs(durationOf(bucketOf(ms)) - ms) / ms)
  t.ok(worst > relativeError * 0.9, `within the bound of the buckets: ${worst}`)
  // Reported values are rounded to a thousandth of a millisecond.
  t.ok(worst <= relativeError + 0.0005 / 0.05, `${worst}`)
  for (let ms = 1; ms < 3_600_000; ms *= 1.0007) {
    if (Math.abs(durationOf(bucketOf(ms)) - ms) / ms > relativeError + 0.0005) t.fail(`${ms} ms`)
  }
})

t.test('a longer duration is never in a lower bucket', async (t) => {
  let last = 0
  for (let ms = 0.01; ms < 10_000_000; ms *= 1.01) {
    const bucket = bucketOf(ms)
    if (bucket < last || !Number.isInteger(bucket)) t.fail(`${ms} ms is in ${bucket}`)
    last = bucket
  }
  t.equal(last, lastBucket)
  t.ok(lastBucket < 32_768, 'bucket numbers fit the column')
})

t.test('an invalid duration has a bucket too', async (t) => {
  for (const wrong of [0, -0, -1, Number.NaN, -Infinity, Number.MIN_VALUE]) t.equal(bucketOf(wrong), 0)
  for (const long of [3_600_000, Infinity, Number.MAX_VALUE]) t.equal(bucketOf(long), lastBucket)
  t.equal(durationOf(0), 0.05)
})
