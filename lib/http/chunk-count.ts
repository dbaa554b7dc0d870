/** The bound on small chunks of a request body. A chunk takes time and memory of its own, however short it is. */
import { failure, type TenantryError } from '../errors.js'

const freeChunks = 4096 // of a body, in any size
const leastAverage = 64 // bytes of a chunk, beyond them

/** Counts the chunks of one body. */
export class ChunkCount {
  #chunks = 0
  #bytes = 0

  /** Returns the refusal if the body has too many small chunks. */
  add (chunk: Buffer): TenantryError | undefined {
    this.#chunks++
    this.#bytes += chunk.length
    if (this.#chunks <= freeChunks || this.#bytes >= this.#chunks * leastAverage) return undefined
    return failure('badRequest', {
      message: `The body arrives in too many small chunks: after the first ${freeChunks}, send at least ${leastAverage} bytes in a chunk on average`,
      // The rest of the body is not read.
      headers: { connection: 'close' }
    })
  }
}
