/** Idempotency keys on declared routes. */
import type { Session } from '../database/engine.js'
import { type IdempotencyClaim, requireMark } from '../database/idempotency-claim.js'
import type { RouteReply } from '../http/route-reply.js'
import type { RouteCall } from './route-call.js'

/** A stored response, to be replayed. */
export interface KeptResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** The hold of one request on its key. */
export interface Claim extends IdempotencyClaim {
  /** The statement that stores the response; null if it is too large. It returns no row if another request has taken over the key. */
  keeping (response: KeptResponse): IdempotencyClaim['mark'] | null
  /** The transaction with that statement has committed. */
  kept (): void
  /** Stores the response, unless it is stored already. Never rejects: the write itself has succeeded. */
  answered (response: KeptResponse): Promise<void>
  /** Marks the key as used, without its response. Never rejects. */
  lost (): Promise<void>
  /** Frees the key, unless the route has written something. Never rejects. */
  failed (): Promise<void>
}

export interface IdempotencyKeys {
  /** Claims the key for the request, or returns the response of the first request with the key. */
  claim (request: RouteCall, key: string, options: { readonly encrypted: boolean }): Promise<Claim | KeptResponse>
}

export function isKept (claimed: Claim | KeptResponse): claimed is KeptResponse {
  return 'status' in claimed
}

/** The headers that a replayed response repeats. */
const keptHeaders = ['content-type', 'location', 'etag'] as const

export function replayed (reply: RouteReply, { status, headers, body }: KeptResponse): string {
  reply.code(status).headers(headers).header('idempotency-replayed', 'true')
  return body
}

/** The response in its stored form. */
export function keptOf (reply: RouteReply, body: string): KeptResponse {
  const headers: Record<string, string> = {}
  for (const name of keptHeaders) {
    const value = reply.getHeader(name)
    if (typeof value === 'string') headers[name] = value
  }
  return { status: reply.statusCode, headers, body }
}

/** The work for the key within the route's transaction. */
export interface Once {
  /** For a write that runs its own transaction. */
  readonly claim: IdempotencyClaim
  /** Records that the route has written. Rejects if another request has taken over the key, so that the transaction rolls back. */
  written(session: Session): Promise<void>
  /** The route has written outside the database: a later error does not free the key. */
  wroteOutside(): void
  /** Records the write and stores the response body. */
  answered(session: Session, body: string): Promise<void>
  /** The transaction that stores the body has committed. */
  kept(): void
}

/** Runs the work, or replays the first response of the key. A rejection frees the key, unless the route has written something. */
export async function once (
  idempotency: IdempotencyKeys,
  { key, encrypted }: { readonly key: string, readonly encrypted: boolean },
  request: RouteCall,
  reply: RouteReply,
  work: (once: Once) => Promise<string>
): Promise<string> {
  const claim = await idempotency.claim(request, key, { encrypted })
  if (isKept(claim)) return replayed(reply, claim)
  const run = async (session: Session, statement: IdempotencyClaim['mark']) => requireMark(await session.rows(statement, statement.values))
  let isStored = false
  let hasWrittenOutside = false
  try {
    const body = await work({
      claim,
      written: (session) => run(session, claim.mark),
      wroteOutside () {
        hasWrittenOutside = true
      },
      async answered (session, body) {
        const keeping = claim.keeping(keptOf(reply, body))
        isStored = keeping !== null
        await run(session, keeping ?? claim.mark)
      },
      kept () {
        if (isStored) claim.kept()
      }
    })
    await claim.answered(keptOf(reply, body))
    return body
  } catch (error) {
    // It points to a record whose transaction did not commit.
    reply.removeHeader('location')
    await (hasWrittenOutside ? claim.lost() : claim.failed())
    throw error
  }
}
