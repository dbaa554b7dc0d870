/** Values of requests: errors that point to them, and URL strings whose type neither a column nor a rule of the route determines. */
import { failure, type TenantryError } from '../errors.js'
import { declaredType } from '../expressions/declared-fields.js'
import type { CompiledValue } from '../expressions/types.js'
import { parseBounded } from '../json/bounds.js'
import { pointerTo } from '../schema/faults.js'
import type { RequestRules } from '../schema/route.js'
import type { ErrorDetail } from '../validation/detail.js'

/** The maximum details in a response, so that a thousand wrong fields do not make it large. */
export const maxDetails = 20

/** The `validationFailed` of several values. */
export function refuse (details: readonly ErrorDetail[]): TenantryError {
  return failure('validationFailed', { extras: { details: details.slice(0, maxDetails) } })
}

/** The pointer of a value, if it comes from one place in the request; else the fallback. */
export function requestPath ({ references }: CompiledValue, fallback: string): string {
  const [reference] = references
  if (reference === undefined || references.length > 1) return fallback
  const { source, path } = reference
  return source === 'body' || source === 'params' || source === 'query' || source === 'headers' ? pointerTo('', source, ...path) : fallback
}

/** Whether the value is one template that reads the path, the query string or a header. */
export function isOfUrl ({ references, within }: CompiledValue): boolean {
  return within === undefined && references.length > 0 &&
    references.every(({ source }) => source === 'query' || source === 'params' || source === 'headers')
}

/** Whether a string counts as each JSON value that it can represent: it comes from a URL, and the rules do not declare a text. */
export function isUntyped (value: CompiledValue, rules: RequestRules | undefined): boolean {
  return isOfUrl(value) && value.references.some((reference) => declaredType(rules, reference) !== 'string')
}

/** The items of a comma-separated string. Spaces beside a comma are removed; spaces at the ends of the string are kept. */
export function splitList (text: string): string[] {
  if (text === '') return []
  const items = text.split(',')
  const last = items.length - 1
  return items.map((item, index) => {
    const begun = index === 0 ? item : item.trimStart()
    return index === last ? begun : begun.trimEnd()
  })
}

const scalar = /^(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:e[+-]?\d{1,3})?|true|false)$/i
const composite = /^\s*[{[]/

/**
 * The JSON values that a string of a URL can represent, as JSON texts: `7` is a string and a number. A rule of the route that
 * gives the field a type reduces them to one. undefined for a string that starts like an object or an array, but is not JSON within the
 * bounds of a body.
 */
export function jsonTexts (value: string): readonly string[] | undefined {
  const text = JSON.stringify(value)
  // A number keeps its digits: a double may not hold it.
  if (scalar.test(value)) return [text, value.toLowerCase()]
  if (!composite.test(value)) return [text]
  try {
    parseBounded(value)
    return [text, value]
  } catch {
    return undefined
  }
}
