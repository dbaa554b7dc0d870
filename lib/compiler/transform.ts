/** Computed fields of a route's response. */
import { isFailure } from '../errors.js'
import { Budget } from '../expressions/cel/frame.js'
import { type CompiledExpression, compileExpression } from '../expressions/expression.js'
import { type KnownResult, unknownMember } from '../expressions/known-members.js'
import type { TemplateContext } from '../expressions/reference.js'
import { recordsOf, type ResultForm } from '../expressions/result.js'
import type { Reference, Scope } from '../expressions/types.js'
import { isRecord } from '../json/plain-value.js'
import { type FaultList, nearest, pointerTo } from '../schema/faults.js'
import type { Transform } from '../schema/route.js'

export interface CompiledTransform {
  readonly references: readonly Reference[]
  /** The names of the computed fields: of each record of a list, and of the response itself. */
  readonly names: { readonly record: readonly string[], readonly result: readonly string[] }
  /** Adds the fields to a response, which is changed in place, and returns it. */
  readonly apply: (result: unknown, scope: Scope, form: ResultForm) => unknown
}

/** The known properties of the response that a transform changes. */
export interface TransformedResult {
  /** The response has one member for each of several queries. */
  readonly several: boolean
  /** The fields of a record; null if records may have any. */
  readonly names: ReadonlySet<string> | null
  /** Each record, and the whole response, before the transform. */
  readonly item: KnownResult
  readonly result: KnownResult
}

interface ComputedField {
  readonly name: string
  readonly expression: CompiledExpression
  /** It reads `result` but not `item`: it is computed once, as a member of the response itself. */
  readonly once: boolean
}

/** The shared budget of all computed fields of a response, in full evaluations: together 800,000 steps and 16 MB. */
const evaluationsPerResponse = 4

/**
 * Compiles a transform. `item` is each record of a list, or the record itself; `result` is the whole response. A field that reads only
 * `result` becomes a member of the response; any other field becomes a member of each record. A list without an envelope has no members, so
 * its fields all belong to the records. The response of several queries is not a record, so its fields read `result`. Fields are computed
 * in order and can read earlier fields. An expression that fails gives null. `apply` throws `expressionLimit` if one expression, or all of
 * them together, exceed their budget. Returns null after faults, and without a transform or its fields.
 */
export function compileTransform (
  transform: Transform | undefined,
  pointer: string,
  context: TemplateContext,
  returned: TransformedResult
): CompiledTransform | null {
  if (transform === undefined) return null
  const within: TemplateContext = { ...context, secretsRefusedIn: 'a transform' }
  const fields: ComputedField[] = []
  const computed = computedNames(transform)
  const take = (expressions: Readonly<Record<string, string>> | undefined, at: string) => {
    for (const [name, text] of Object.entries(expressions ?? {})) {
      const field = pointerTo(at, name)
      if (name === '__proto__') context.faults.add(field, 'a field cannot have the name "__proto__"')
      const expression = compileExpression(text, field, within, ['item', 'result'])
      if (expression === null) continue
      checkMembers(expression, field, returned, computed, context.faults)
      fields.push({ name, expression, once: expression.locals.has('result') && !expression.locals.has('item') })
    }
  }
  const before = context.faults.faults.length
  take(transform.fields, `${pointer}/fields`)
  for (const [index, operation] of (transform.operations ?? []).entries()) take(operation.fields, `${pointer}/operations/${index}/fields`)
  if (context.faults.faults.length > before || fields.length === 0) return null

  const perRecord = fields.filter(({ once }) => !once)
  const perResult = fields.filter(({ once }) => once)
  return Object.freeze({
    references: Object.freeze(fields.flatMap(({ expression }) => expression.references)),
    names: Object.freeze({ record: perRecord.map(({ name }) => name), result: perResult.map(({ name }) => name) }),
    apply: (result: unknown, scope: Scope, form: ResultForm) => {
      const budget = new Budget(evaluationsPerResponse)
      const records = recordsOf(result, form)
      if (records === null) {
        compute(fields, result, result, scope, budget)
        return result
      }
      const isList = Array.isArray(result)
      for (const item of records) compute(isList ? fields : perRecord, item, result, scope, budget)
      if (!isList) compute(perResult, result, result, scope, budget)
      return result
    }
  })
}

/** Reports members that `item` and `result` do not have. `computed`: the names of all computed fields. */
function checkMembers (
  { locals, members }: CompiledExpression,
  at: string,
  { several, names, item, result }: TransformedResult,
  computed: readonly string[],
  faults: FaultList
): void {
  if (several && locals.has('item')) {
    faults.add(
      at,
      'the route returns the results of several queries, so there is no `item`: use `result`, which has the result of each query by name'
    )
  }
  const known = names === null ? null : [...names, ...computed]
  for (const { local, path } of members) {
    const name = String(path[0])
    if (local === 'item' && known?.includes(name) === false) {
      faults.add(at, `\`item.${name}\`: no record of this route has a field "${name}"`, nearest(name, known))
      continue
    }
    const read = local === 'item' ? item : result
    const unknown = unknownMember(path, { ...read, hidden: new Set([...read.hidden, ...computed]) })
    if (unknown !== undefined) faults.add(at, `\`${local}.${path.join('.')}\`: ${unknown.reason}`, unknown.suggestion)
  }
}

export function computedNames (transform: Transform): string[] {
  return [transform, ...transform.operations ?? []].flatMap((operation) => Object.keys(operation.fields ?? {}))
}

function compute (fields: readonly ComputedField[], target: unknown, result: unknown, scope: Scope, budget: Budget): void {
  if (!isRecord(target)) return
  const locals = { item: target, result }
  for (const { name, expression } of fields) target[name] = valueOf(expression, scope, locals, budget)
}

/** One record that an expression cannot handle must not fail the whole response. */
function valueOf (expression: CompiledExpression, scope: Scope, locals: Readonly<Record<string, unknown>>, budget: Budget): unknown {
  try {
    return expression.evaluate(scope, locals, budget) ?? null
  } catch (error) {
    if (isFailure(error, 'expressionLimit')) throw error
    return null
  }
}
