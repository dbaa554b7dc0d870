/** Kept responses, and their repetition. */
import type { RouteReply } from '../../lib/http/route-exchange.js'
import type { Answer } from './service.js'

/** Headers of a kept response. */
const keptHeaders = ['content-type', 'location', 'etag'] as const

/** Sets the response to the kept one; returns its body. */
export function replayed (reply: Pick<RouteReply, 'statusCode' | 'code' | 'headers' | 'header' | 'getHeader'>, { status, headers, body }: Answer): string {
  reply.code(status).headers(headers).header('idempotency-replayed', 'true')
  return body
}

/** The stored form of the response. */
export function answerOf (reply: Pick<RouteReply, 'statusCode' | 'code' | 'headers' | 'header' | 'getHeader'>, body: string): Answer {
  const headers: Record<string, string> = {}
  for (const name of keptHeaders) {
    const value = reply.getHeader(name)
    if (typeof value === 'string') headers[name] = value
  }
  return { status: reply.statusCode, headers, body }
}
