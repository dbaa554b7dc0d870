/** Detects callers that leave before their response is complete, or do not read it. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { callerLeft } from '../database/failures.js'
import type { RouteReply } from './route-reply.js'

/** Aborts when the caller leaves. */
export function leftOf ({ raw }: Pick<RouteReply, 'raw'>): AbortSignal {
  const left = new AbortController()
  const leave = () => {
    if (!raw.writableFinished) left.abort(callerLeft())
  }
  if (raw.destroyed) leave()
  else raw.once('close', leave)
  return left.signal
}

/** Makes Node close a connection that reads nothing of the response for that long. */
export function limitWriting ({ raw: { socket }, server }: FastifyRequest, { raw }: FastifyReply, ms: number): void {
  raw.setTimeout(ms, () => socket.destroy())
  // Runs before Node's own listener, which may set the timeout of an idle connection.
  raw.prependOnceListener('finish', () => socket.setTimeout(server.server.timeout))
}
