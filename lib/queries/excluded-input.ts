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

/** Returns a function that reads values without the excluded fields, for the values of one query. */
export function excluding (excluded: ReadonlySet<string>): (value: CompiledValue) => CompiledValue {
  /** By body or input. It can be large, and a value can read it a thousand times. */
  const reductions = new WeakMap<object, unknown>()

  function without (given: unknown): unknown {
    if (typeof given !== 'object' || given === null) return given
    if (!reductions.has(given)) reductions.set(given, withoutFields(given, excluded))
    return reductions.get(given)
  }

  function reduced (scope: Scope): Scope {
    return scope.fullAccess ? scope : { ...scope, body: without(scope.body), input: without(scope.input) }
  }

  /** Only values that hold the whole body or input. Those of one field are left to `isExcludedInput`. */
  return (value) => {
    const { references, evaluate, within } = value
    const isReduced = (reference: Reference): boolean =>
      isOfCaller(reference) && (holdsRecord(reference) || (within !== undefined && excluded.has(String(reference.path[0]))))
    if (excluded.size === 0 || !references.some(isReduced)) return value
    return Object.freeze({
      ...value,
      evaluate: (scope: Scope) => evaluate(reduced(scope)),
      ...within !== undefined && { within: Object.freeze(within.map((read) => (scope: Scope) => read(reduced(scope)))) }
    })
  }
}

/** The whole, or an item of a list of records. */
function holdsRecord ({ path: [first] }: Reference): boolean {
  return first === undefined || /^\d+$/.test(String(first))
}

function withoutFields (given: unknown, excluded: ReadonlySet<string>): unknown {
  if (Array.isArray(given)) return given.map((item: unknown) => withoutFields(item, excluded))
  if (!isRecord(given) || !Object.keys(given).some((name) => excluded.has(name))) return given
  return Object.fromEntries(Object.entries(given).filter(([name]) => !excluded.has(name)))
}
