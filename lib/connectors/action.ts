/** A compiled action of a connector: from evaluated params to the parts of a request. */
import type { TSchema } from 'typebox'
import { failure } from '../errors.js'
import { Budget } from '../expressions/cel/frame.js'
import { settingsIn } from '../expressions/environment.js'
import { compileCopyBound } from '../expressions/expansion-guard.js'
import { type CompiledExpression, compileExpression } from '../expressions/expression.js'
import { noScope } from '../expressions/no-scope.js'
import { member, type TemplateContext } from '../expressions/reference.js'
import { compileValue } from '../expressions/template.js'
import { hasTemplate, parseOrFault, parsePath, TemplateSyntaxError } from '../expressions/template-parser.js'
import type { CompiledValue, Reference, Scope } from '../expressions/types.js'
import { jsonExcess } from '../json/bounds.js'
import { ExactNumber } from '../json/exact-number.js'
import { parseJson } from '../json/parse.js'
import { isRecord } from '../json/plain-value.js'
import { type FaultList, membersIn, nearest, pointerTo } from '../schema/faults.js'
import { invalidInput } from '../validation/detail.js'
import { errorDetails, lazyValidator, validationError } from '../validation/validator.js'
import { compileAddress } from './address.js'
import { faultOfHeader, faultOfName, setHeader } from './auth.js'
import { compilePruned, queryOf, requestTooLarge, writeBody } from './body.js'
import type { ActionDefinition } from './definition.js'
import { signedHeaders } from './sign.js'
import type { CompiledCall, OutboundResponseLike } from './types.js'

export type CompiledAction = NonNullable<ReturnType<typeof compileAction>>

const methods: ReadonlySet<string> = new Set(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS'])

/** Compiles an action; null after faults. `shared` are the headers of all actions of the connector. */
export function compileAction (
  definition: ActionDefinition,
  shared: Readonly<Record<string, string>>,
  pointer: string,
  context: TemplateContext
) {
  const { faults } = context
  const before = faults.faults.length
  const path = compileAddress(definition.path, `${pointer}/path`, context, 'path')
  const method = compileValue(definition.method, `${pointer}/method`, context)
  const bodyType = compileValue(definition.bodyType ?? 'json', `${pointer}/bodyType`, context)
  const headers = compileHeaders(definition.headers ?? {}, shared, `${pointer}/headers`, context)
  const query = compileValue(definition.query ?? {}, `${pointer}/query`, context)
  const body = compilePruned(definition.body, `${pointer}/body`, context)
  const secret = definition.sign === undefined ? null : compileValue(definition.sign, `${pointer}/sign`, context)
  const result = compileResult(definition.result, `${pointer}/result`, faults)
  const computed = compileComputed(definition.compute ?? {}, pointer, context)
  const fixedMethod = method.constant ? String(method.evaluate(noScope)).toUpperCase() : null
  if (definition.body !== undefined && (fixedMethod === 'GET' || fixedMethod === 'HEAD')) {
    faults.add(`${pointer}/body`, `a ${fixedMethod} request cannot have a body`)
  }
  if (faults.faults.length > before || path === null || result === null) return null

  const values = [path, method, bodyType, headers, query, body, ...secret === null ? [] : [secret]]
  const references = [...values.flatMap(({ references: read }) => read), ...computed.flatMap(([, { references: read }]) => read)]
  const copiesFit = compileCopyBound([{ ...definition, params: null }, shared], context)
  return Object.freeze({
    definition,
    /** null if the params of each call set it. */
    method: fixedMethod,
    references,
    /** The request contains settings. */
    readsSettings: settingsIn(JSON.stringify([definition.path, definition.headers, definition.query, definition.body])).length > 0,
    check: definition.params === undefined ? readCheck(references, path.references) : schemaCheck(definition.params),
    /** Adds computed params; throws `answerTooLarge` if the action would copy too much of params and secrets. */
    complete: (params: Readonly<Record<string, unknown>>, scope: Scope) => {
      const completed = computed.length === 0 ? params : withComputed(params, computed, scope)
      if (!copiesFit({ ...scope, params: completed })) throw requestTooLarge()
      return completed
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
    /** The signature of the body; null if the action has none. */
    sign: secret === null ? null : (scope: Scope, text: string) => signedHeaders(secret.evaluate(scope), text),
    result
  })
}

function methodOf (method: CompiledValue, scope: Scope): string {
  const text = String(method.evaluate(scope)).toUpperCase()
  if (!methods.has(text)) throw invalidInput('/params/method', `must be one of ${[...methods].join(', ')}`, 'enum')
  return text
}

function compileHeaders (
  declared: NonNullable<ActionDefinition['headers']>,
  shared: Readonly<Record<string, string>>,
  pointer: string,
  context: TemplateContext
) {
  const { faults } = context
  const all = typeof declared === 'string' ? [] : Object.entries({ ...shared, ...declared })
  for (const [name, text] of all) {
    const wrong = faultOfName(name) ?? (text.includes('{{') ? null : faultOfHeader(text))
    if (wrong !== null) faults.add(pointerTo(pointer, name), wrong)
  }
  const value = compileValue(typeof declared === 'string' ? declared : Object.fromEntries(all), pointer, context)
  return {
    references: value.references,
    evaluate: (scope: Scope) => {
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

interface ParamsCheck {
  /** Adds a fault for everything that is wrong in the declared params for all values of their templates. */
  readonly declared: (params: Readonly<Record<string, unknown>>, pointer: string, context: TemplateContext) => void
  /** Throws `validationFailed`, with paths below `/params`. */
  readonly evaluated: (params: Readonly<Record<string, unknown>>) => void
}

function schemaCheck (schema: TSchema): ParamsCheck {
  const validate = lazyValidator(schema, 'body')
  const errorsOf = (params: Readonly<Record<string, unknown>>) => validate(params) ?? []
  return {
    declared (params, pointer, { faults }) {
      const errors = errorsOf(params).filter(({ instancePath, keyword, schemaPath }) => {
        const value = membersIn(instancePath).reduce<unknown>(member, params)
        // A template is checked once its value is known.
        if (instancePath === '') return true
        if (typeof value === 'string') return !hasTemplate(value)
        return !((keyword === 'anyOf' || schemaPath.includes('/anyOf/')) && holdsTemplate(value))
      })
      for (const { path, message } of errorDetails(errors, 'params')) faults.add(pointer + path.slice('/params'.length), message)
    },
    evaluated (params) {
      const errors = errorsOf(params)
      if (errors.length > 0) throw validationError(errors, 'params')
    }
  }
}

/** The check without a schema: an action accepts the params that its templates read; those in the address are required. */
function readCheck (references: readonly Reference[], required: readonly Reference[]): ParamsCheck {
  const names = new Set(namesIn(references))
  // `{{params}}` accepts any params.
  const any = references.some(({ source, path }) => source === 'params' && path.length === 0)
  const needed = new Set(namesIn(required))
  const check = (
    params: Readonly<Record<string, unknown>>,
    wrong: (name: string, message: string, keyword: string) => void
  ) => {
    for (const name of needed) if (!Object.hasOwn(params, name)) wrong(name, 'is required, because it is part of the URL', 'required')
    if (any) return
    for (const name of Object.keys(params)) {
      if (!names.has(name)) wrong(name, 'is not used by any template of the action', 'additionalProperties')
    }
  }
  return {
    declared: (params, pointer, { faults }) =>
      check(params, (name, message, keyword) =>
        faults.add(pointerTo(pointer, name), message, keyword === 'required' ? undefined : nearest(name, names))),
    evaluated: (params) =>
      check(params, (name, message, keyword) => {
        throw invalidInput(pointerTo('/params', name.slice(0, 100)), message, keyword)
      })
  }
}

function namesIn (references: readonly Reference[]): string[] {
  return references.flatMap(({ source, path: [name] }) => source === 'params' && name !== undefined ? [String(name)] : [])
}

function holdsTemplate (value: unknown): boolean {
  if (typeof value === 'string') return hasTemplate(value)
  return typeof value === 'object' && value !== null && Object.values(value).some(holdsTemplate)
}

// Drops a byte order mark, which some services send.
const utf8 = new TextDecoder()

/** Compiles the path of the result: own members and items, or the whole response. Null after faults. */
function compileResult (picked: string | undefined, pointer: string, faults: FaultList): CompiledCall['result'] | null {
  if (picked === undefined) return valueOf
  const names = parseOrFault(() => {
    const { source, path, call } = parsePath(picked)
    if (call) throw new TemplateSyntaxError('expected the path of a member', 0)
    return [source, ...path]
  }, pointer, faults)
  if (names === undefined) return null
  return (response) => names.reduce<unknown>(member, valueOf(response)) ?? null
}

function valueOf ({ headers, body }: OutboundResponseLike): unknown {
  if (body.length === 0) return null
  const text = utf8.decode(body)
  if (!/^[^;]*[/+]json\s*(?:;|$)/i.test(headers['content-type'] ?? '')) return text
  const excess = jsonExcess(text)
  if (excess !== null) throw failure('providerAnswerTooComplex', { message: `The JSON in the provider's response ${excess}` })
  try {
    return parseJson(text)
  } catch {
    throw failure('providerFailed', { message: 'The response of the provider is not valid JSON' })
  }
}
