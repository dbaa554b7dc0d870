/** The key that makes repeated requests one at the payment provider. */
import { createHash, randomUUID } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { callerParts } from '../../lib/http/account.js'
import { idempotencyKeyIn } from '../../lib/http/idempotency-key.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { stringifyJson } from '../../lib/json/stringify.js'

export interface IdempotencyKey {
  readonly idempotencyKey: string
  /** The caller chose it, so an earlier request may have used it. */
  readonly isCallers: boolean
}

/**
 * Derived from all parts of the operation: the tenant, the caller, the caller's key, the endpoint, and the parameters in the URL and the
 * body. Random without a key of the caller. A provider may remember a key for longer than this server does, so its adapter checks repeated
 * responses. Throws `validationFailed`.
 */
export function idempotencyKeyOf (request: FastifyRequest, tenant: Owner): IdempotencyKey {
  const { headers, method, url, body = null } = request
  const key = idempotencyKeyIn(headers)
  if (key === undefined) return { idempotencyKey: randomUUID(), isCallers: false }
  const operation = stringifyJson([tenant, callerParts(request), key, method, url, body])
  return { idempotencyKey: createHash('sha256').update(operation).digest('base64url'), isCallers: true }
}
