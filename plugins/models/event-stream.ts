/** Server-sent events of a call: any number of events, then exactly one `done` or `error`. */
import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { failure, TenantryError } from '../../lib/errors.js'

const maxUnsentBytes = 262_144 // of a reader that does not read

export interface EventStreamOptions<Event> {
  /** Milliseconds between comments that keep the connection open. Default: 15,000. */
  readonly heartbeatMs?: number | undefined
  /** An event that was already read, and is sent before the others. Default: none. */
  readonly first?: Event | undefined
  /** The event as the reader receives it. Default: unchanged. */
  readonly shown?: (event: Event) => object
}

/**
 * Sends the events. If they fail, the error is the last event. Stops when the reader leaves or has 256 KB unread; the connection is
 * then closed.
 */
export function sendEvents<Event extends object> (
  reply: FastifyReply,
  events: AsyncIterator<Event, void>,
  { heartbeatMs = 15_000, first, shown = (event) => event }: EventStreamOptions<Event>
): FastifyReply {
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
  const heartbeat = setInterval(() => push(':\n\n'), heartbeatMs)
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

  const send = (event: object) => push(`data: ${JSON.stringify(event)}\n\n`)

  async function pump (): Promise<void> {
    try {
      if (first !== undefined) send(shown(first))
      for (let next = await events.next(); next.done !== true; next = await events.next()) send(shown(next.value))
    } catch (error) {
      if (isOver) return
      const { code, message } = error instanceof TenantryError ? error : failure('internal')
      if (!(error instanceof TenantryError)) reply.log.error({ err: error }, 'a stream of a model failed unexpectedly')
      send({ type: 'error', code, message })
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
