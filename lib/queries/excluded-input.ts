/** Excluded fields of the body, or of a workflow's input: callers without full access do not write them. */
import type { CompiledValue, Reference, Scope } from '../expressions/types.js'
import { isRecord } from '../json/plain-value.js'

/** Whether the whole value is left out: its name is excluded, or it reads an excluded field. */
export function isExcludedInput (name: string, { references }: CompiledValue, excluded: ReadonlySet<string>): boolean {
  return references.some((reference) => isOfCaller(reference) && (excluded.has(name) || excluded.has(String(reference.path[0]))))
}

/** The body is also the default input of a workflow. */
export function isOfCaller ({ source }: Reference): boolean {
  return source === 'body' || source === 'input'
}

/** The value, read without the excluded fields if it holds the whole body or input. A value of one field is left to `isExcludedInput`. */
export function withoutExcluded (value: CompiledValue, excluded: ReadonlySet<string>): CompiledValue {
  const { references, evaluate, within } = value
  const isReduced = (reference: Reference): boolean =>
    isOfCaller(reference) && (holdsRecord(reference) || (within !== undefined && excluded.has(String(reference.path[0]))))
  if (excluded.size === 0 || !references.some(isReduced)) return value
  const reduced = (scope: Scope): Scope =>
    scope.fullAccess ? scope : { ...scope, body: without(scope.body, excluded), input: without(scope.input, excluded) }
  return Object.freeze({
    ...value,
    evaluate: (scope: Scope) => evaluate(reduced(scope)),
    ...within !== undefined && { within: Object.freeze(within.map((read) => (scope: Scope) => read(reduced(scope)))) }
  })
}

/** The whole, or an item of a list of records. */
function holdsRecord ({ path: [first] }: Reference): boolean {
  return first === undefined || /^\d+$/.test(String(first))
}

function without (given: unknown, excluded: ReadonlySet<string>): unknown {
  if (Array.isArray(given)) return given.map((item: unknown) => without(item, excluded))
  if (!isRecord(given) || !Object.keys(given).some((name) => excluded.has(name))) return given
  return Object.fromEntries(Object.entries(given).filter(([name]) => !excluded.has(name)))
}
