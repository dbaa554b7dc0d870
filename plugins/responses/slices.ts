/** Encodes and writes a large body in slices. */
import { setImmediate as nextRound } from 'node:timers/promises'
import type { Yielder } from '../../lib/concurrency/event-loop-yielder.js'

export const sliceSize = 262_144 // bytes or characters, which take about half a millisecond to encode and write

/** The body in slices: one write of a large body would take milliseconds. */
export async function * slices (body: Buffer | string, yielder: Yielder): AsyncGenerator<Buffer> {
  for (let start = 0; start < body.length;) {
    if (yielder.shouldYield()) await yielder.yield()
    const end = endOfSlice(body, start)
    // Encodes a text in slices: encoding it as a whole takes milliseconds and doubles its memory.
    yield typeof body === 'string' ? Buffer.from(body.slice(start, end)) : body.subarray(start, end)
    // The time of a slice includes its write, which happens when the slice is taken.
    yielder.done(sliceSize)
    start = end
    await nextRound()
  }
}

const highSurrogate = /[\ud800-\udbff]/

/** Surrogate pairs are not split: they are one character in UTF-8. */
function endOfSlice (body: Buffer | string, start: number): number {
  const end = start + sliceSize
  if (end >= body.length) return body.length
  return typeof body === 'string' && highSurrogate.test(body.charAt(end - 1)) ? end + 1 : end
}
