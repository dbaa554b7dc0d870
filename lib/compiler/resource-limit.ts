/** Compiles the use of a limited resource by a request. */
import { noScope } from '../expressions/no-scope.js'
import type { TemplateContext } from '../expressions/reference.js'
import { compileValue } from '../expressions/template.js'
import type { Reference, Scope, TemplateSource } from '../expressions/types.js'
import { isOfUrl } from '../queries/request-value.js'
import { pointerTo } from '../schema/faults.js'
import { maxAmount } from '../schema/limits.js'
import type { Route } from '../schema/route.js'
import { invalidInput } from '../validation/detail.js'

/** The sources of numbers before the queries run. Headers are always strings. */
const sources: ReadonlySet<TemplateSource> = new Set<TemplateSource>(['env', 'body', 'params', 'query', 'auth', 'tenant'])

export interface CompiledResourceLimit {
  readonly resource: string
  readonly metric: string
  /** A whole number from 1. Throws `validationFailed` with the member of the request for any other value. */
  readonly amount: (scope: Scope) => number
}

/** Compiles a route's `resourceLimit`; null if it has none or has faults. */
export function compileResourceLimit ({ resourceLimit }: Route, pointer: string, context: TemplateContext): CompiledResourceLimit | null {
  if (resourceLimit === undefined) return null
  const { resource, metric, amount = 1 } = resourceLimit
  const at = `${pointer}/resourceLimit/amount`
  const compiled = typeof amount === 'number' ? () => amount : compileAmount(amount, at, context)
  return compiled === null ? null : Object.freeze({ resource, metric, amount: compiled })
}

function compileAmount (text: string, pointer: string, context: TemplateContext): CompiledResourceLimit['amount'] | null {
  const { faults } = context
  const before = faults.faults.length
  const value = compileValue(text, pointer, { ...context, sources })
  if (faults.faults.length > before) return null
  if (!value.constant) {
    const path = placeOf(value.references)
    const isText = isOfUrl(value)
    return (scope) => {
      const given = value.evaluate(scope)
      const amount = isText ? asNumber(given) : given
      if (isAmount(amount)) return amount
      throw invalidInput(path, `must be a whole number from 1 to ${maxAmount}, the amount that the request uses`, 'resourceLimit')
    }
  }
  const amount = asNumber(value.evaluate(noScope))
  if (isAmount(amount)) return () => amount
  faults.add(pointer, `expected a whole number from 1 to ${maxAmount}`)
  return null
}

/** Settings, path parameters and undeclared members of the query string are texts. */
function asNumber (value: unknown): unknown {
  return typeof value === 'string' && /^\d{1,16}$/.test(value) ? Number(value) : value
}

function isAmount (value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 1
}

/** The member of the request as a JSON Pointer. For values outside the request, the template's name for it. */
function placeOf ([reference]: readonly Reference[]): string {
  return reference === undefined ? '' : pointerTo('', reference.source, ...reference.path)
}
