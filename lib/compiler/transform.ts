/** Computed fields of a route's answer (DESIGN 4, `transform`). */
import type { Transform } from '../config/schema/route.js'
import type { CompiledExpression } from './expression.js'
import type { TemplateContext } from './reference.js'
import type { Reference, Scope } from './types.js'
import { pointerTo } from '../config/faults.js'
import { isRecord } from '../plain-value.js'
import { isEnvelope } from './answer.js'
import { CopyBudget } from './copies.js'
import { compileExpression } from './expression.js'

/** A transform, ready to run. */
export interface CompiledTransform {
  readonly references: readonly Reference[]
  /** The names of the computed fields: those of each record of a list, and those of the answer itself. */
  readonly names: { readonly record: readonly string[], readonly answer: readonly string[] }
  /** Adds the fields to an answer that is the caller's own to change, and returns it. */
  readonly apply: (answer: unknown, scope: Scope) => unknown
}

interface ComputedField {
  readonly name: string
  readonly expression: CompiledExpression
  /** It reads `result` and no `item`: computed once, a member of the answer itself. */
  readonly once: boolean
}

/**
 * Compiles a transform. `item` is each record of a list, or the record itself; `result` is the whole answer. A field
 * that reads only `result` becomes a member of the answer, any other one of each record. Fields are computed in order
 * and see those before them. An expression that cannot be
 * computed gives null, and so does one that would make the fields of one answer larger than 16 MB together. Null after
 * faults, or without fields.
 */
export function compileTransform (transform: Transform, pointer: string, context: TemplateContext): CompiledTransform | null {
  const within: TemplateContext = { ...context, secretsRefusedIn: 'a transform' }
  const fields: ComputedField[] = []
  const take = (expressions: Readonly<Record<string, string>> | undefined, at: string) => {
    for (const [name, text] of Object.entries(expressions ?? {})) {
      const field = pointerTo(at, name)
      if (name === '__proto__') context.faults.add(field, 'no field can be named "__proto__"')
      const expression = compileExpression(text, field, within, ['item', 'result'])
      if (expression !== null) fields.push({ name, expression, once: expression.locals.has('result') && !expression.locals.has('item') })
    }
  }
  const before = context.faults.faults.length
  take(transform.fields, `${pointer}/fields`)
  for (const [index, operation] of (transform.operations ?? []).entries()) take(operation.fields, `${pointer}/operations/${index}/fields`)
  if (context.faults.faults.length > before || fields.length === 0) return null

  const perRecord = fields.filter(({ once }) => !once)
  const perAnswer = fields.filter(({ once }) => once)
  return Object.freeze({
    references: Object.freeze(fields.flatMap(({ expression }) => expression.references)),
    names: Object.freeze({ record: perRecord.map(({ name }) => name), answer: perAnswer.map(({ name }) => name) }),
    apply: (answer: unknown, scope: Scope) => {
      const budget = new CopyBudget()
      if (!isEnvelope(answer)) {
        compute(fields, answer, answer, scope, budget)
        return answer
      }
      for (const item of answer.data) compute(perRecord, item, answer, scope, budget)
      compute(perAnswer, answer, answer, scope, budget)
      return answer
    }
  })
}

function compute (fields: readonly ComputedField[], target: unknown, result: unknown, scope: Scope, budget: CopyBudget): void {
  if (!isRecord(target)) return
  const locals = { item: target, result }
  for (const { name, expression } of fields) {
    const value = valueOf(expression, scope, locals)
    // A copy: a record that held itself, or the answer, would be no JSON.
    target[name] = budget.take(value) ? copyOf(value) : null
  }
}

function copyOf (value: unknown): unknown {
  return typeof value === 'object' ? structuredClone(value) : value
}

/** One record that does not fit an expression must not cost the caller the whole answer. */
function valueOf (expression: CompiledExpression, scope: Scope, locals: Readonly<Record<string, unknown>>): unknown {
  try {
    return expression.evaluate(scope, locals) ?? null
  } catch {
    return null
  }
}
