/** Writes a large body in pieces, so that other requests are handled between them. */
import { Readable } from 'node:stream'
import { setImmediate as nextRound } from 'node:timers/promises'
import type { Yielder } from '../../lib/concurrency/event-loop-yielder.js'

const sliceSize = 262_144 // bytes or characters, which take about half a millisecond to encode and write

/** `yielder`: that of the account that receives the body. */
export function slicesOf (body: Buffer | string, yielder: Yielder): Readable {
  return Readable.from(slices(body, yielder), { objectMode: false, highWaterMark: sliceSize })
}

async function * slices (body: Buffer | string, yielder: Yielder): AsyncGenerator<Buffer> {
  for (let start = 0; start < body.length;) {
    if (yielder.shouldYield()) await yielder.yield()
    const end = endOfSlice(body, start)
    // A text is not encoded as a whole: that takes milliseconds and doubles its memory.
    yield typeof body === 'string' ? Buffer.from(body.slice(start, end)) : body.subarray(start, end)
    // The time of a piece includes its write, which happens when the slice is taken.
    yielder.done(sliceSize)
    start = end
    await nextRound()
  }
}

/** Surrogate pairs are not split: they are one character in UTF-8. */
function endOfSlice (body: Buffer | string, start: number): number {
  const end = start + sliceSize
  if (end >= body.length) return body.length
  return typeof body === 'string' && isHighSurrogate(body.charCodeAt(end - 1)) ? end + 1 : end
}

function isHighSurrogate (code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff
}
