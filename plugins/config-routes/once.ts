/** Requests of declared routes that hold an idempotency key. */
import type {} from '../idempotency/index.js'
import type { Session } from '../../lib/database/engine.js'
import type { RouteCall, RouteReply } from '../../lib/http/route-exchange.js'
import type { IdempotencyClaim } from '../../lib/database/idempotency-claim.js'
import { requireMark } from '../../lib/database/idempotency-claim.js'
import { answerOf, replayed } from '../idempotency/stored-response.js'
import { isAnswer, type Idempotency } from '../idempotency/service.js'

/** What the transaction of the route does for the key. */
export interface Once {
  /** Notes that the route has written. Rejects where another request holds the key by now, so that nothing is written. */
  written(session: Session): Promise<void>
  /** Notes that, and keeps the body of the answer. */
  answered(session: Session, body: string): Promise<void>
  /** The transaction that keeps the body is committed. */
  kept(): void
}

/** Runs the work, or gives the answer of the request that had the key first. A work that rejects frees the key, unless it has written. */
export async function once (
  idempotency: Idempotency,
  { key, encrypted }: { readonly key: string, readonly encrypted: boolean },
  request: RouteCall,
  reply: RouteReply,
  work: (once: Once) => Promise<string>
): Promise<string> {
  const claim = await idempotency.claim(request, key, { encrypted })
  if (isAnswer(claim)) return replayed(reply, claim)
  const run = async (session: Session, statement: IdempotencyClaim['mark']) => requireMark(await session.rows(statement, statement.values))
  let isKept = false
  try {
    const body = await work({
      written: (session) => run(session, claim.mark),
      async answered (session, body) {
        const keeping = claim.keeping(answerOf(reply, body))
        isKept = keeping !== null
        await run(session, keeping ?? claim.mark)
      },
      kept () {
        if (isKept) claim.kept()
      }
    })
    await claim.answered(answerOf(reply, body))
    return body
  } catch (error) {
    // That of a record whose transaction did not commit.
    reply.removeHeader('location')
    await claim.failed()
    throw error
  }
}
