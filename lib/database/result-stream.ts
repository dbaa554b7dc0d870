/** The bytes of results on a connection, before pg parses them in a listener of the socket's `data`. */
import type { Yielder } from '../concurrency/event-loop-yielder.js'
import type { EventEmitter } from 'node:events'
import { WholeMessages } from './whole-messages.js'

const largeAnswer = 524_288 // bytes
const copies = 3 // of each byte: the chunk, the whole message and its string

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

/**
 * Reads large results in turns, because the driver makes one string of a large value. The bytes of smaller results are only counted.
 */
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
      const messages = new WholeMessages((bytes) => listener.call(stream, bytes))
      stream.on('data', (chunk) => {
        this.#bytes += chunk.length
        if (this.#bytes < largeAnswer) messages.add(chunk)
        else this.#read(messages, chunk)
      })
    }
  }

  /** The connection returns to the pool: the next result belongs to another caller. */
  ended (): void {
    this.#bytes = 0
    this.#yielder = null
  }

  #read (messages: WholeMessages, chunk: Buffer): void {
    const yielder = this.#yielder ??= this.#yielderOf()
    const read = () => {
      messages.add(chunk)
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

/** The parts of a stream that are used here: a socket, TLS, or the embedded database's own stream. */
type GuardedStream = Pick<EventEmitter, 'listeners' | 'removeListener' | 'on'> & { destroy(error: Error): unknown }

type Guarded = (this: unknown, chunk: unknown) => void

/**
 * From here on, an exception of a `data` listener ends the connection and fails its pending statements. It would end the process
 * otherwise. Some results throw: one above 512 MB is longer than a string can be.
 */
export function guardAnswers (stream: GuardedStream): void {
  for (const listener of stream.listeners('data') as Guarded[]) {
    stream.removeListener('data', listener)
    stream.on('data', function (this: unknown, chunk: unknown) {
      try {
        listener.call(this, chunk)
      } catch (error) {
        stream.destroy(new Error('Connection terminated: a response of the database cannot be read', { cause: error }))
      }
    })
  }
}
