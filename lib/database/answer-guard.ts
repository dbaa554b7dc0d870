/**
 * pg parses results in a listener of the socket's `data`. An exception thrown there would end the process, and some results throw: one
 * above 512 MB is longer than a string can be.
 */
import type { EventEmitter } from 'node:events'

/** The parts of a stream that are used here: a socket, TLS, or the embedded database's own stream. */
export type GuardedStream = Pick<EventEmitter, 'listeners' | 'removeListener' | 'on'> & { destroy(error: Error): unknown }

type Listener = (this: unknown, chunk: unknown) => void

/** From here on, an exception of a `data` listener ends the connection and fails its pending statements. */
export function guardAnswers (stream: GuardedStream): void {
  for (const listener of stream.listeners('data') as Listener[]) {
    stream.removeListener('data', listener)
    stream.on('data', function (this: unknown, chunk: unknown) {
      try {
        listener.call(this, chunk)
      } catch (error) {
        stream.destroy(new Error('Connection terminated: an answer of the database cannot be read', { cause: error }))
      }
    })
  }
}
