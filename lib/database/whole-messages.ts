/**
 * Collects each large message of PostgreSQL in one buffer of its size. pg doubles its own buffer as a message grows, and copies the
 * message each time. The garbage collections of these buffers would delay other requests.
 */

const headerSize = 5 // bytes: the type, and the length of the rest
const smallest = 262_144 // bytes; pg copies a smaller message at most twice
const largest = 67_108_864 // bytes; the memory of a larger message is not reserved at its beginning

/** The messages on one connection. It must begin between two messages. */
export class WholeMessages {
  readonly #deliver: (bytes: Buffer) => void
  /** Bytes of the current message that are still to come, if it is not collected. */
  #left = 0
  /** The first bytes of a header. */
  #start: Buffer | null = null
  #whole: Buffer | null = null
  #filled = 0

  /** `deliver` gets all bytes in order. */
  constructor (deliver: (bytes: Buffer) => void) {
    this.#deliver = deliver
  }

  add (chunk: Buffer): void {
    let bytes = chunk
    if (this.#whole !== null) {
      const used = this.#fill(this.#whole, chunk)
      if (used === chunk.length) return
      bytes = chunk.subarray(used)
    } else if (this.#start !== null) {
      bytes = Buffer.concat([this.#start, chunk])
      this.#start = null
    }
    this.#split(bytes)
  }

  #fill (whole: Buffer, bytes: Buffer): number {
    const used = bytes.copy(whole, this.#filled)
    this.#filled += used
    if (this.#filled === whole.length) {
      this.#whole = null
      this.#deliver(whole)
    }
    return used
  }

  /** Delivers the bytes up to a large message that ends in a later chunk, or up to an incomplete header. */
  #split (bytes: Buffer): void {
    let offset = this.#left
    let size = 0
    while (offset + headerSize <= bytes.length) {
      size = 1 + bytes.readUInt32BE(offset + 1)
      if (size >= smallest && size <= largest && offset + size > bytes.length) break
      offset += size
    }
    this.#left = Math.max(0, offset - bytes.length)
    if (offset >= bytes.length) return this.#deliver(bytes)
    if (offset > 0) this.#deliver(bytes.subarray(0, offset))
    const rest = bytes.subarray(offset)
    if (rest.length < headerSize) {
      this.#start = rest
      return
    }
    this.#filled = 0
    this.#whole = Buffer.allocUnsafeSlow(size)
    this.#fill(this.#whole, rest)
  }
}
