/** Responses as they are kept, and given again. */
import type { FastifyReply } from 'fastify'
import type { Answer } from './service.js'

/** Headers of an answer that are given again. */
const keptHeaders = ['content-type', 'location', 'etag'] as const

/** Makes the response the kept one; returns its body. */
export function replayed (reply: FastifyReply, { status, headers, body }: Answer): string {
  reply.code(status).headers(headers).header('idempotency-replayed', 'true')
  return body
}

/** The response as it is kept. */
export function answerOf (reply: FastifyReply, body: string): Answer {
  const headers: Record<string, string> = {}
  for (const name of keptHeaders) {
    const value = reply.getHeader(name)
    if (typeof value === 'string') headers[name] = value
  }
  return { status: reply.statusCode, headers, body }
}
