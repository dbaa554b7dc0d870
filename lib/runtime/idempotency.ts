/** Requests of declared routes that hold an idempotency key. */
import type { Session } from '../database/engine.js'
import type { RouteCall, RouteReply } from '../http/route-exchange.js'
import type { IdempotencyClaim } from '../database/idempotency-claim.js'
import { requireMark } from '../database/idempotency-claim.js'

/** A response as it is given again. */
export interface KeptResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** A request that holds its key. */
export interface Claim extends IdempotencyClaim {
  /**
   * The statement that keeps the response, for the transaction of the write; null for a response that is too large to keep. It
   * answers no row where another request holds the key by now.
   */
  keeping (response: KeptResponse): IdempotencyClaim['mark'] | null
  /** The transaction with that statement is committed. */
  kept (): void
  /** Keeps the response, unless it is kept. Never rejects: what was done stays done. */
  answered (response: KeptResponse): Promise<void>
  /** Frees the key, unless something was written. Never rejects. */
  failed (): Promise<void>
}

export interface IdempotencyKeys {
  /** Claims the key of the request, or returns the response of the request that had it first. */
  claim (request: RouteCall, key: string, options: { readonly encrypted: boolean }): Promise<Claim | KeptResponse>
}

export function isKept (claimed: Claim | KeptResponse): claimed is KeptResponse {
  return 'status' in claimed
}

type ReplyParts = Pick<RouteReply, 'statusCode' | 'code' | 'headers' | 'header' | 'getHeader'>

/** Headers of a response that are given again. */
const keptHeaders = ['content-type', 'location', 'etag'] as const

/** Makes the response the kept one; returns its body. */
export function replayed (reply: ReplyParts, { status, headers, body }: KeptResponse): string {
  reply.code(status).headers(headers).header('idempotency-replayed', 'true')
  return body
}

/** The response as it is kept. */
export function keptOf (reply: ReplyParts, body: string): KeptResponse {
  const headers: Record<string, string> = {}
  for (const name of keptHeaders) {
    const value = reply.getHeader(name)
    if (typeof value === 'string') headers[name] = value
  }
  return { status: reply.statusCode, headers, body }
}

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
  try {
    const body = await work({
      written: (session) => run(session, claim.mark),
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
    // That of a record whose transaction did not commit.
    reply.removeHeader('location')
    await claim.failed()
    throw error
  }
}
