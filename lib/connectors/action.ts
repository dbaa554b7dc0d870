/** A compiled action of a connector: from evaluated params to the parts of a request. */
import type { TemplateContext } from '../expressions/reference.js'
import type { CompiledValue, Reference, Scope } from '../expressions/types.js'
import type { ActionDefinition } from './definition.js'
import type { CompiledCall } from './types.js'
import { noScope } from '../expressions/no-scope.js'
import { Budget } from '../expressions/cel/budget.js'
import { CopyBudget } from '../expressions/copies.js'
import { compileExpression, type CompiledExpression } from '../expressions/expression.js'
import { compileTemplate, compileValue } from '../expressions/template.js'
import { settingsIn } from '../expressions/environment.js'
import { pointerTo } from '../schema/faults.js'
import { failure } from '../errors.js'
import { ExactNumber } from '../json/exact-number.js'
import { isRecord } from '../json/plain-value.js'
import { invalidInput } from '../validation/detail.js'
import { compileAddress } from './address.js'
import { compilePruned, queryOf, writeBody, type BodyText } from './body.js'
import { faultOfHeader, faultOfName, setHeader } from './headers.js'
import { readCheck, schemaCheck, type ParamsCheck } from './params.js'
import { compileResult } from './result.js'
import { signedHeaders } from './sign.js'

/** The parts of a request that the action makes. */
export interface ActionParts {
  readonly method: string
  readonly path: string
  readonly body: BodyText | null
  readonly query: URLSearchParams
  readonly headers: Record<string, string>
}

export interface CompiledAction {
  readonly definition: ActionDefinition
  /** null if the params of each call set it. */
  readonly method: string | null
  readonly references: readonly Reference[]
  /** The request contains settings. */
  readonly readsSettings: boolean
  readonly check: ParamsCheck
  /** Adds computed params; throws `answerTooLarge` if the action would copy too much of them. */
  readonly complete: (params: Readonly<Record<string, unknown>>, scope: Scope) => Readonly<Record<string, unknown>>
  readonly parts: (scope: Scope) => ActionParts
  /** The signature of the body; null if the action has none. */
  readonly sign: ((scope: Scope, body: string) => Record<string, string>) | null
  readonly result: CompiledCall['result']
}

const methods: ReadonlySet<string> = new Set(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS'])

/** Compiles an action; null after faults. `shared` are the headers of all actions of the connector. */
export function compileAction (
  definition: ActionDefinition,
  shared: Readonly<Record<string, string>>,
  pointer: string,
  context: TemplateContext
): CompiledAction | null {
  const { faults } = context
  const before = faults.faults.length
  const path = compileAddress(definition.path, `${pointer}/path`, context, 'path')
  const method = compileTemplate(definition.method, `${pointer}/method`, context)
  const bodyType = compileTemplate(definition.bodyType ?? 'json', `${pointer}/bodyType`, context)
  const headers = compileHeaders(definition.headers ?? {}, shared, `${pointer}/headers`, context)
  const query = compileValue(definition.query ?? {}, `${pointer}/query`, context)
  const body = compilePruned(definition.body, `${pointer}/body`, context)
  const secret = definition.sign === undefined ? null : compileTemplate(definition.sign, `${pointer}/sign`, context)
  const result = compileResult(definition.result, `${pointer}/result`, faults)
  const computed = compileComputed(definition.compute ?? {}, pointer, context)
  const fixedMethod = method.constant ? String(method.evaluate(noScope)).toUpperCase() : null
  if (definition.body !== undefined && (fixedMethod === 'GET' || fixedMethod === 'HEAD')) {
    faults.add(`${pointer}/body`, `a ${fixedMethod} request cannot have a body`)
  }
  if (faults.faults.length > before || path === null || result === null) return null

  const values = [path, method, bodyType, headers, query, body, ...secret === null ? [] : [secret]]
  const references = [...values.flatMap(({ references: read }) => read), ...computed.flatMap(([, { references: read }]) => read)]
  const copies = references.filter(({ source }) => source === 'params').length
  return Object.freeze({
    definition,
    method: fixedMethod,
    references,
    readsSettings: settingsIn(JSON.stringify([definition.path, definition.headers, definition.query, definition.body])).length > 0,
    check: definition.params === undefined ? readCheck(references, path.references) : schemaCheck(definition.params),
    complete: (params: Readonly<Record<string, unknown>>, scope: Scope) => {
      if (!new CopyBudget().take(params, copies, 'request')) {
        throw failure('answerTooLarge', { message: 'The request to the service would be too large' })
      }
      return computed.length === 0 ? params : withComputed(params, computed, scope)
    },
    parts: (scope: Scope) => {
      const value = body.evaluate(scope)
      const sent = methodOf(method, scope)
      const parameters = queryOf(membersOf(query.evaluate(scope), '/params/query'))
      if (value !== undefined && (sent === 'GET' || sent === 'HEAD')) throw invalidInput('/params/body', `a ${sent} request cannot have a body`, 'method')
      return {
        method: sent,
        path: path.evaluate(scope),
        query: parameters,
        headers: headers.evaluate(scope),
        body: value === undefined ? null : writeBody(value, String(bodyType.evaluate(scope)))
      }
    },
    sign: secret === null ? null : (scope: Scope, text: string) => signedHeaders(secret.evaluate(scope), text),
    result
  })
}

function methodOf (method: CompiledValue, scope: Scope): string {
  const text = String(method.evaluate(scope)).toUpperCase()
  if (!methods.has(text)) throw invalidInput('/params/method', `must be one of ${[...methods].join(', ')}`, 'enum')
  return text
}

interface CompiledHeaders {
  readonly references: readonly Reference[]
  readonly evaluate: (scope: Scope) => Record<string, string>
}

function compileHeaders (
  declared: NonNullable<ActionDefinition['headers']>,
  shared: Readonly<Record<string, string>>,
  pointer: string,
  context: TemplateContext
): CompiledHeaders {
  const { faults } = context
  const all = typeof declared === 'string' ? [] : Object.entries({ ...shared, ...declared })
  for (const [name, text] of all) {
    const wrong = faultOfName(name) ?? (text.includes('{{') ? null : faultOfHeader(text))
    if (wrong !== null) faults.add(pointerTo(pointer, name), wrong)
  }
  const value = compileValue(typeof declared === 'string' ? declared : Object.fromEntries(all), pointer, context)
  return {
    references: value.references,
    evaluate: (scope) => {
      const headers: Record<string, string> = {}
      for (const [name, given] of Object.entries(membersOf(value.evaluate(scope), '/params/headers'))) {
        if (given === null || given === '') continue
        if (typeof given === 'object' && !(given instanceof ExactNumber)) {
          throw invalidInput('/params/headers', `the header "${name.slice(0, 64)}" must be a string`, 'type')
        }
        setHeader(headers, name, String(given))
      }
      return headers
    }
  }
}

function membersOf (value: unknown, path: string): Readonly<Record<string, unknown>> {
  if (value === undefined || value === null) return {}
  if (isRecord(value)) return value
  throw invalidInput(path, 'must be an object', 'type')
}

type ComputedParams = readonly (readonly [string, CompiledExpression])[]

function compileComputed (compute: Readonly<Record<string, string>>, pointer: string, context: TemplateContext): ComputedParams {
  return Object.entries(compute).flatMap(([name, text]) => {
    const expression = compileExpression(text, pointerTo(pointer, 'compute', name), context, [])
    return expression === null ? [] : [[name, expression] as const]
  })
}

function withComputed (
  params: Readonly<Record<string, unknown>>,
  computed: ComputedParams,
  scope: Scope
): Readonly<Record<string, unknown>> {
  const result: Record<string, unknown> = { ...params }
  const budget = new Budget()
  for (const [name, expression] of computed) {
    const value = expression.evaluate({ ...scope, params }, {}, budget)
    if (value === null || value === undefined) delete result[name]
    else result[name] = value
  }
  return result
}
