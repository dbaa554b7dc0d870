/**
 * Joins the small chunks of a body, and bounds their number. Each chunk has a buffer of its own, so a body of one-byte chunks would take
 * 240 times its length in memory.
 */
import { Readable } from 'node:stream'
import { failure } from '../../lib/errors.js'

const blockSize = 16_384 // bytes
const freeChunks = 4096 // of a body, in any size
const leastAverage = 64 // bytes of a chunk, beyond them

/** The body of `source`. Not a Transform: it takes several microseconds for each chunk. */
export class BodyChunks extends Readable {
  readonly #source: Readable
  #block: Buffer | null = null
  #used = 0
  #chunks = 0
  #bytes = 0

  constructor (source: Readable) {
    super()
    this.#source = source
    source.on('data', this.#add).once('end', this.#end).once('error', (error) => this.destroy(error))
    // A refused body has no reader. Without a listener, the end of its connection would end the process.
    this.on('error', () => {})
  }

  override _read (): void {
    this.#source.resume()
  }

  readonly #add = (chunk: Buffer): void => {
    this.#chunks++
    this.#bytes += chunk.length
    if (this.#chunks > freeChunks && this.#bytes < this.#chunks * leastAverage) {
      this.#source.off('data', this.#add).pause()
      this.destroy(tooManyChunks())
      return
    }
    const isLarge = chunk.length > blockSize / 2
    if (isLarge || this.#used + chunk.length > blockSize) this.#pass()
    if (isLarge) this.#give(chunk)
    else {
      this.#block ??= Buffer.allocUnsafeSlow(blockSize)
      this.#used += chunk.copy(this.#block, this.#used)
    }
  }

  readonly #end = (): void => {
    this.#pass()
    this.push(null)
  }

  #pass (): void {
    if (this.#block !== null) this.#give(this.#block.subarray(0, this.#used))
    this.#block = null
    this.#used = 0
  }

  #give (bytes: Buffer): void {
    if (!this.push(bytes)) this.#source.pause()
  }
}

function tooManyChunks (): Error {
  return failure('badRequest', {
    message: `The body arrives in too many small chunks: after the first ${freeChunks}, send at least ${leastAverage} bytes in a chunk on average`,
    // The rest of the body is not read.
    headers: { connection: 'close' }
  })
}
