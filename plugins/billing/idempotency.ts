/** The key under which tries of a request are one at the payment provider. */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { FastifyRequest } from 'fastify'
import { createHash, randomUUID } from 'node:crypto'
import { idempotencyKeyIn } from '../../lib/http/idempotency-key.js'

export interface IdempotencyKey {
  readonly idempotencyKey: string
  /** The caller named it: a request before this one may have had it, too. */
  readonly isCallers: boolean
}

/** The caller's key, made one of the tenant and the endpoint alone; else a random one. Throws `validationFailed`. */
export function idempotencyKeyOf ({ headers, routeOptions }: FastifyRequest, tenant: Owner): IdempotencyKey {
  const key = idempotencyKeyIn(headers)
  if (key === undefined) return { idempotencyKey: randomUUID(), isCallers: false }
  return {
    idempotencyKey: createHash('sha256').update(JSON.stringify([tenant, routeOptions.method, routeOptions.url, key])).digest('base64url'),
    isCallers: true
  }
}
