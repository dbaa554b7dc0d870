/** The key under which tries of a request are one at the payment provider (DESIGN 8). */
import type { FastifyRequest } from 'fastify'
import { createHash, randomUUID } from 'node:crypto'
import { Type } from 'typebox'

/** The headers of an endpoint that takes a key of its caller. */
export const IdempotencyHeaders = Type.Object({
  'idempotency-key': Type.Optional(Type.String({ pattern: '^[\\x21-\\x7E]{1,255}$', expected: '1 to 255 visible characters of ASCII, sent once', description: 'The same for tries of the same request, which are then one as far as the payment provider keeps such keys. Default: each is another.' }))
})

export interface IdempotencyKey {
  readonly idempotencyKey: string
  /** The caller named it: a request before this one may have had it, too. */
  readonly isCallers: boolean
}

/** The caller's key, made one of the tenant and the endpoint alone; else a random one. */
export function idempotencyKeyOf ({ headers, routeOptions }: FastifyRequest, tenant: string): IdempotencyKey {
  const key = headers['idempotency-key']
  if (typeof key !== 'string') return { idempotencyKey: randomUUID(), isCallers: false }
  return { idempotencyKey: createHash('sha256').update(JSON.stringify([tenant, routeOptions.method, routeOptions.url, key])).digest('base64url'), isCallers: true }
}
