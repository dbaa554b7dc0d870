/** The place of an expression in the tenant's document. */
import { failure, isFailure } from '../../lib/errors.js'
import { isRecord } from '../../lib/plain-value.js'
import { placeOf } from '../../lib/config/webhook-routes.js'

/** Routes with the same text share what is compiled, which therefore names places within the route; `pointer` is the route's. */
export function placedExpression (error: unknown, pointer: string): unknown {
  if (!isFailure(error, 'expressionLimit')) return error
  const { details } = error.extras
  const [detail] = Array.isArray(details) ? details : []
  // A workflow that the route names by `ref` has its own place.
  if (!isRecord(detail) || typeof detail['path'] !== 'string' || detail['path'].startsWith('/workflows/')) return error
  const path = placeOf(pointer + detail['path'])
  return failure('expressionLimit', { message: error.message.replace(detail['path'], path), extras: { details: [{ ...detail, path }] } })
}
