/** The key under which tries of a request are one at the payment provider (DESIGN 8). */
import type { FastifyRequest } from 'fastify'
import { createHash, randomUUID } from 'node:crypto'
import { Type } from 'typebox'

/** The headers of an endpoint that takes a key of its caller. */
export const IdempotencyHeaders = Type.Object({
  'idempotency-key': Type.Optional(Type.String({ pattern: '^[\\x21-\\x7E]{1,255}$', expected: '1 to 255 visible characters of ASCII', description: 'Tries of a request that name the same key are passed on to the provider under one key. Default: one for each request.' }))
})

/** The caller's key, made one of the tenant and the endpoint alone; else a random one. */
export function idempotencyKeyOf ({ headers, routeOptions }: FastifyRequest, tenant: string): string {
  const key = headers['idempotency-key']
  if (typeof key !== 'string') return randomUUID()
  return createHash('sha256').update(JSON.stringify([tenant, routeOptions.method, routeOptions.url, key])).digest('base64url')
}
