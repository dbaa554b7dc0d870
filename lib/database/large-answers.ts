/**
 * Reads large results of the database in turns, because the driver copies each chunk and makes one string of a large value. The
 * bytes of smaller results are only counted.
 */
import type { Yielder } from '../concurrency/event-loop-yielder.js'

const largeAnswer = 524_288 // bytes
const copies = 3 // of each byte: the buffer of pg grows by doubling, and becomes a string

type Listener = (this: unknown, chunk: Buffer) => void

/** The socket of a connection, or the stream of the embedded database. */
export interface AnswerStream {
  readonly destroyed: boolean
  listeners(event: 'data'): unknown[]
  removeListener(event: 'data', listener: Listener): unknown
  on(event: 'data', listener: Listener): unknown
  pause(): unknown
  resume(): unknown
}

/** Tracks the results on one connection. */
export class AnswerReader {
  readonly #stream: AnswerStream
  readonly #yielderOf: () => Yielder
  #bytes = 0
  #yielder: Yielder | null = null

  /** Reads later large results of the stream in turns. `yielderOf()` is called once for each of them. */
  constructor (stream: AnswerStream, yielderOf: () => Yielder) {
    this.#stream = stream
    this.#yielderOf = yielderOf
    for (const listener of stream.listeners('data') as Listener[]) {
      stream.removeListener('data', listener)
      stream.on('data', (chunk) => {
        this.#bytes += chunk.length
        if (this.#bytes < largeAnswer) listener.call(stream, chunk)
        else this.#read(listener, chunk)
      })
    }
  }

  /** The connection returns to the pool: the next result belongs to another caller. */
  ended (): void {
    this.#bytes = 0
    this.#yielder = null
  }

  #read (listener: Listener, chunk: Buffer): void {
    const yielder = this.#yielder ??= this.#yielderOf()
    const read = () => {
      listener.call(this.#stream, chunk)
      yielder.done(copies * chunk.length)
    }
    if (!yielder.shouldYield()) return read()
    this.#stream.pause()
    yielder.yield().then(() => {
      if (this.#stream.destroyed) return
      read()
      this.#stream.resume()
    }, () => {})
  }
}
