/** Detects callers that leave before their response is complete. */
import type { FastifyReply } from 'fastify'
import { callerLeft } from '../database/failures.js'

/** Aborts when the caller leaves. */
export function leftOf ({ raw }: FastifyReply): AbortSignal {
  const left = new AbortController()
  const leave = () => {
    if (!raw.writableFinished) left.abort(callerLeft())
  }
  if (raw.destroyed) leave()
  else raw.once('close', leave)
  return left.signal
}
