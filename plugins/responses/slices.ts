/** Writes a large body piece by piece, so that other requests are handled between two pieces. */
import { Readable } from 'node:stream'
import { setImmediate as nextRound } from 'node:timers/promises'

const sliceSize = 262_144 // bytes, which the kernel takes in about a tenth of a millisecond

export function slicesOf (body: Buffer): Readable {
  return Readable.from(slices(body), { objectMode: false, highWaterMark: sliceSize })
}

async function * slices (body: Buffer): AsyncGenerator<Buffer> {
  for (let start = 0; start < body.length; start += sliceSize) {
    yield body.subarray(start, start + sliceSize)
    await nextRound()
  }
}
