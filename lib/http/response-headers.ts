/** Headers of every response, and the id of its request. */
import { randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { FastifyReply, onRequestHookHandler } from 'fastify'

/** Pages of other origins read responses through CORS, which `Cross-Origin-Resource-Policy` does not affect. */
export const securityHeaders = Object.freeze({
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin'
})

/** Without `includeSubDomains`: the server does not decide for other hosts. */
const strictTransport = 'max-age=31536000'

export const requestIdHeader = 'x-request-id'

export const setCommonHeaders: onRequestHookHandler = (request, reply, done) => {
  reply.headers(securityHeaders).header(requestIdHeader, request.id)
  // Over TLS, or through a trusted proxy that reports it.
  if (request.protocol === 'https') reply.header('strict-transport-security', strictTransport)
  done()
}

export const noStore: onRequestHookHandler = (_request, reply, done) => {
  reply.header('cache-control', 'no-store')
  done()
}

/** Adds to `Vary`. Most responses have none before. */
export function addVary (reply: FastifyReply, names: string): void {
  const before = reply.getHeader('vary')
  if (before === undefined) reply.header('vary', names)
  else if (before !== '*') reply.header('vary', `${String(before)}, ${names}`)
}

const plainWord = /^[\w.-]{1,128}$/

/** The caller's `x-request-id` if it is a plain word, otherwise an id that is unique across processes. */
export function requestIds (): (request: Pick<IncomingMessage, 'headers'>) => string {
  const prefix = randomBytes(6).toString('base64url')
  let count = 0
  return ({ headers }) => {
    const given = headers[requestIdHeader]
    return typeof given === 'string' && plainWord.test(given) ? given : `${prefix}-${(++count).toString(36)}`
  }
}
