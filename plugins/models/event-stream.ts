/** Server-sent events of a call: any number of events, then exactly one `done` or `error`. */
import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { failure, TenantryError } from '../../lib/errors.js'

const heartbeatMs = 15_000
const maxUnsentBytes = 262_144 // of a reader that does not read

export interface EventStreamOptions {
  /** Milliseconds between comments that keep the connection open. Default: 15,000. */
  readonly heartbeatMs?: number | undefined
}

/**
 * Sends the events. If they fail, the error is the last event. Stops when the reader leaves or has 256 KB unread; the connection is
 * then closed.
 */
export function sendEvents (reply: FastifyReply, events: AsyncIterableIterator<object>, options: EventStreamOptions = {}): FastifyReply {
  const stream = new Readable({ read () {} })
  const unsent = () => stream.readableLength + reply.raw.writableLength
  let isOver = false
  const push = (text: string) => {
    if (isOver) return
    stream.push(text)
    if (unsent() <= maxUnsentBytes) return
    reply.log.warn({ bytes: unsent() }, 'a client does not read its event stream: its connection is closed')
    leave()
    reply.raw.destroy()
  }
  const heartbeat = setInterval(() => push(':\n\n'), options.heartbeatMs ?? heartbeatMs)
  const end = () => {
    isOver = true
    clearInterval(heartbeat)
  }
  function leave (): void {
    if (isOver) return
    end()
    stream.destroy()
    events.return?.().catch(() => {})
  }

  async function pump (): Promise<void> {
    try {
      for (;;) {
        const { done, value } = await events.next()
        if (done === true) break
        push(`data: ${JSON.stringify(value)}\n\n`)
      }
    } catch (error) {
      if (isOver) return
      const shown = error instanceof TenantryError ? error : failure('internal')
      if (shown !== error) reply.log.error({ err: error }, 'a stream of a model failed unexpectedly')
      push(`data: ${JSON.stringify({ type: 'error', code: shown.code, message: shown.message })}\n\n`)
    }
    if (isOver) return
    end()
    stream.push(null)
  }

  reply.raw.once('close', leave)
  if (reply.raw.destroyed) leave()
  reply.header('content-type', 'text/event-stream; charset=utf-8').header('x-accel-buffering', 'no')
  // The promise never rejects.
  pump()
  return reply.send(stream)
}
