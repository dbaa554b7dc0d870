/** The place of an expression in the tenant's document. */
import type { PlaceOf } from '../../lib/expressions/condition.js'
import { failure, isFailure } from '../../lib/errors.js'
import { isRecord } from '../../lib/json/plain-value.js'
import { placeOf as placeInWebhook } from '../../lib/document/webhook-routes.js'

/** Routes with the same text share their compiled form, whose places are relative to the route. `pointer`: the route's place. */
export function placeWithin (pointer: string, place: string): string {
  // A workflow that the route names by `ref` has an absolute place.
  return place.startsWith('/workflows/') ? place : placeInWebhook(pointer + place)
}

export function placedExpression (error: unknown, placeOf: PlaceOf): unknown {
  if (!isFailure(error, 'expressionLimit')) return error
  const { details } = error.extras
  const [detail] = Array.isArray(details) ? details : []
  if (!isRecord(detail) || typeof detail['path'] !== 'string') return error
  const path = placeOf(detail['path'])
  return failure('expressionLimit', { message: error.message.replace(detail['path'], path), extras: { details: [{ ...detail, path }] } })
}
