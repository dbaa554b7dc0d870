/** Validation errors for values of a request: a 400 whose `details` have a pointer for each. */
import type { CompiledValue } from '../expressions/types.js'
import { pointerTo } from '../schema/faults.js'
import { failure, type TenantryError } from '../errors.js'

export interface Detail {
  /** JSON Pointer into the request, such as `/body/title`. */
  readonly path: string
  readonly message: string
  readonly keyword: string
}

export function refuse (...details: readonly Detail[]): TenantryError {
  return failure('validationFailed', { extras: { details } })
}

/** The pointer of a value, if it comes from one place in the request; else the fallback. */
export function requestPath ({ references }: CompiledValue, fallback: string): string {
  const [reference] = references
  if (reference === undefined || references.length > 1) return fallback
  const { source, path } = reference
  return source === 'body' || source === 'params' || source === 'query' || source === 'headers' ? pointerTo('', source, ...path) : fallback
}
