/** The bytes of results on a connection, before pg parses them in a listener of the socket's `data`. */
import type { Yielder } from '../concurrency/event-loop-yielder.js'

const largeResult = 524_288 // bytes
const copies = 3 // of each byte: the chunk, the whole message and its string

type Listener = (this: unknown, chunk: Buffer) => void

/** The socket of a connection, or the stream of the embedded database. */
export interface ResultStream {
  readonly destroyed: boolean
  listeners(event: 'data'): unknown[]
  removeListener(event: 'data', listener: Listener): unknown
  on(event: 'data', listener: Listener): unknown
  pause(): unknown
  resume(): unknown
}

/** Reads large results in turns, because the driver makes one string of a large value. The bytes of smaller results are only counted. */
export class ResultReader {
  #bytes = 0
  #yielder: Yielder | null = null

  /** Reads later large results of the stream in turns. `yielderOf()` is called once for each of them. */
  constructor (private readonly stream: ResultStream, private readonly yielderOf: () => Yielder) {
    wrapListeners(stream, (listener) => {
      const messages = new WholeMessages((bytes) => listener.call(stream, bytes))
      return (chunk) => {
        this.#bytes += chunk.length
        if (this.#bytes < largeResult) messages.add(chunk)
        else this.#read(messages, chunk)
      }
    })
  }

  /** The connection returns to the pool: the next result belongs to another caller. */
  ended (): void {
    this.#bytes = 0
    this.#yielder = null
  }

  #read (messages: WholeMessages, chunk: Buffer): void {
    const yielder = this.#yielder ??= this.yielderOf()
    const read = () => {
      messages.add(chunk)
      yielder.done(copies * chunk.length)
    }
    if (!yielder.shouldYield()) return read()
    this.stream.pause()
    yielder.yield().then(() => {
      if (this.stream.destroyed) return
      read()
      this.stream.resume()
    }, () => {})
  }
}

/** From here on, an exception of a `data` listener, as of a result above 512 MB, ends the connection instead of the process. */
export function guardResults (stream: Wrapped & { destroy(error: Error): unknown }): void {
  wrapListeners(stream, (listener) => (chunk) => {
    try {
      listener.call(stream, chunk)
    } catch (error) {
      stream.destroy(new Error('Connection terminated: a response of the database cannot be read', { cause: error }))
    }
  })
}

type Wrapped = Pick<ResultStream, 'listeners' | 'removeListener' | 'on'>

/** Puts another listener in the place of each listener of the stream's `data`. */
function wrapListeners (stream: Wrapped, wrap: (listener: Listener) => Listener): void {
  for (const listener of stream.listeners('data') as Listener[]) {
    stream.removeListener('data', listener)
    stream.on('data', wrap(listener))
  }
}

const headerSize = 5 // bytes: the type, and the length of the rest
const smallest = 262_144 // bytes; pg copies a smaller message at most twice
const largest = 67_108_864 // bytes; the memory of a larger message is not reserved at its beginning

/**
 * Collects each large message of PostgreSQL in one buffer of its size. pg doubles its own buffer as a message grows, and copies the
 * message each time. The garbage collections of these buffers would delay other requests. It must begin between two messages.
 */
export class WholeMessages {
  /** Bytes of the current message that are still to come, if it is not collected. */
  #left = 0
  /** The first bytes of a header. */
  #start: Buffer | null = null
  #whole: Buffer | null = null
  #filled = 0

  /** `deliver` gets all bytes in order. */
  constructor (private readonly deliver: (bytes: Buffer) => void) {}

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
      this.deliver(whole)
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
    if (offset >= bytes.length) return this.deliver(bytes)
    if (offset > 0) this.deliver(bytes.subarray(0, offset))
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
