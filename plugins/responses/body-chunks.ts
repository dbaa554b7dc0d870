/**
 * Joins the small chunks of a body, and bounds their number. Each chunk has a buffer of its own, so a body of one-byte chunks would take
 * 240 times its length in memory.
 */
import { Readable } from 'node:stream'
import { ChunkCount } from '../../lib/http/chunk-count.js'

const blockSize = 16_384 // bytes

/** The body of `source`. Not a Transform: it takes several microseconds for each chunk. */
export class BodyChunks extends Readable {
  readonly #source: Readable
  readonly #chunks = new ChunkCount()
  #isReading = false
  #block: Buffer | null = null
  #used = 0

  constructor (source: Readable) {
    super()
    this.#source = source
    // A refused body has no reader. Without a listener, the end of its connection would end the process.
    this.on('error', () => {})
  }

  override _read (): void {
    if (this.#isReading) {
      this.#source.resume()
      return
    }
    // Not in the constructor: for the next request of a connection, Node.js discards the body, unless a listener has begun to read it.
    this.#isReading = true
    this.#source.on('data', this.#add).once('end', this.#end).once('error', (error) => this.destroy(error))
  }

  readonly #add = (chunk: Buffer): void => {
    const refusal = this.#chunks.add(chunk)
    if (refusal !== undefined) {
      this.#source.off('data', this.#add).pause()
      this.destroy(refusal)
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
