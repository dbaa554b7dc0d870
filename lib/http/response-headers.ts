/** Headers of every response. */
import type { FastifyReply } from 'fastify'

/** Pages of other origins read responses through CORS, which `Cross-Origin-Resource-Policy` does not affect. */
export const securityHeaders = Object.freeze({
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin'
})

/** Without `includeSubDomains`: the server does not decide for other hosts. */
export const strictTransport = 'max-age=31536000'

export const requestIdHeader = 'x-request-id'

/** Adds to `Vary`. Most responses have none before. */
export function addVary (reply: FastifyReply, names: string): void {
  const before = reply.getHeader('vary')
  if (before === undefined) reply.header('vary', names)
  else if (before !== '*') reply.header('vary', `${String(before)}, ${names}`)
}
