/** A run that a caller waits for. */
import type { RouteReply } from '../../lib/http/route-reply.js'
import { failure } from '../../lib/errors.js'

export const maxSyncMs = 300_000 // for a run within a request, after which no further step begins

/** Aborts when the caller has left, since the result is no longer needed. */
export function disconnectSignal ({ raw }: Pick<RouteReply, 'raw'>): AbortSignal {
  const gone = new AbortController()
  raw.once('close', () => {
    if (!raw.writableFinished) gone.abort(failure('stopping', { message: 'The caller disconnected' }))
  })
  return gone.signal
}
