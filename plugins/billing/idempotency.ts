/** The key that makes repeated requests one at the payment provider. */
import { createHash, randomUUID } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { idempotencyKeyIn } from '../../lib/http/idempotency-key.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'

export interface IdempotencyKey {
  readonly idempotencyKey: string
  /** The caller chose it, so an earlier request may have used it. */
  readonly isCallers: boolean
}

/** A key derived from the caller's key, the tenant and the endpoint; else a random one. Throws `validationFailed`. */
export function idempotencyKeyOf ({ headers, routeOptions }: FastifyRequest, tenant: Owner): IdempotencyKey {
  const key = idempotencyKeyIn(headers)
  if (key === undefined) return { idempotencyKey: randomUUID(), isCallers: false }
  return {
    idempotencyKey: createHash('sha256').update(JSON.stringify([tenant, routeOptions.method, routeOptions.url, key])).digest('base64url'),
    isCallers: true
  }
}
