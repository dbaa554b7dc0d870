/** Validates requests to a declared route. Field maps become JSON Schemas and one check of the three parts. */
import type { ErrorObject } from 'ajv'
import { failure } from '../errors.js'
import type { JsonSchema, Scope } from '../expressions/types.js'
import { isRecord } from '../json/plain-value.js'
import { splitList } from '../queries/request-value.js'
import { type FaultList, nearest, pointerTo } from '../schema/faults.js'
import type { Field, RequestRules } from '../schema/route.js'
import type { LinearPattern } from '../validation/linear-pattern.js'
import { type ErrorDetail, errorDetails, lazyValidator, type RequestPart } from '../validation/validator.js'
import { type FieldContext, objectSchema } from './request-field.js'
import { CheckBudget, createPartValidator, type PartValidator } from './request-validator.js'

/** The validated parts of a request. */
export interface CompiledRequest {
  /** The cost of testing a tenant's patterns, in steps: for each byte of the request, and once for compiling. null without patterns. */
  readonly patternCost: { readonly perByte: number, readonly ofCompiling: number } | null
  /** Schemas for `/doc`; a part without one accepts anything. */
  readonly params?: JsonSchema
  readonly query?: JsonSchema
  readonly body?: JsonSchema
  /** Checks the parts, and converts `params` and `query` in place; throws `validationFailed`. The `path` of a detail is a JSON Pointer. */
  readonly validate: (request: { params: unknown, query: unknown, body: unknown }) => void
  /** The body is a form, which `validate` does not check: checks its fields, converting texts in place. */
  readonly validateForm?: (body: Record<string, unknown>) => void
}

/** The properties of a route that its request rules depend on. */
export interface RequestRoute {
  /** The parameters of the path, in order. */
  readonly params: readonly string[]
  /** The response is a page, so the query string accepts `limit` and `offset`. */
  readonly paginated: boolean
  /** Further fields of the query string; the rules override them. Default: none. */
  readonly parameters?: Readonly<Record<string, Field>>
  /** The query string accepts `hard`. */
  readonly hardDelete: boolean
  /** The rules are a tenant's: patterns must be cheap on any text, enums scalar, and the cost of a check is limited. Default: false. */
  readonly ofTenant?: boolean
  /** The body may also be an array of bodies. Default: true. */
  readonly bulk?: boolean
  /** The body is a form, whose fields are strings. Default: false. */
  readonly form?: boolean
}

const maxInteger = 2_147_483_647 // of `limit` and `offset`: the maximum of PostgreSQL's integer
const maxDetails = 50
const longRequestBytes = 2048 // which a mapping may repeat and a pattern is tested against
const longTestSteps = 100_000 // of patterns: about 4 ms
const compilingSteps = 200 // for each unit of a pattern's weight; the pattern must be compiled again if others have displaced it

/** Whether validating or copying the request may hold the event loop. `length`: of its URL. */
export function isLongRequest (headers: Scope['headers'], length = 0): boolean {
  return headers['transfer-encoding'] !== undefined || length + Number(headers['content-length'] ?? 0) >= longRequestBytes
}

/** Whether validating the request may hold the event loop. */
export function isLongValidation ({ patternCost }: CompiledRequest, { headers, url }: { headers: Scope['headers'], url: string }): boolean {
  if (isLongRequest(headers, url.length)) return true
  if (patternCost === null) return false
  const bytes = url.length + Number(headers['content-length'] ?? 0)
  return patternCost.ofCompiling + bytes * patternCost.perByte >= longTestSteps
}

/** Each byte is tested against one pattern at most. */
function costOf (patterns: readonly LinearPattern[]): CompiledRequest['patternCost'] {
  if (patterns.length === 0) return null
  return {
    perByte: Math.max(...patterns.map((pattern) => pattern.stepsOn(''))),
    ofCompiling: patterns.reduce((sum, { weight }) => sum + compilingSteps * weight, 0)
  }
}

/**
 * Compiles the rules of a route. Declared parts accept only declared fields, unless `additionalFields` is true; undeclared parts
 * accept anything. Params and query strings are coerced in place, bodies are not. The body is required if one of its fields is.
 * Generated validators are compiled on their first request.
 */
export function compileRequest (rules: RequestRules | undefined, pointer: string, faults: FaultList, route: RequestRoute): CompiledRequest {
  const context: FieldContext = { faults, ofTenant: route.ofTenant === true, patterns: new Map(), patternWeight: 0 }
  const open = rules?.additionalFields === true
  const before = faults.faults.length
  const params = paramsSchema(rules?.params, `${pointer}/params`, context, route.params)
  const query = querySchema(rules?.query, `${pointer}/query`, context, open, route)
  const body = rules?.body === undefined ? undefined : objectSchema(rules.body, `${pointer}/body`, context, { open })
  const isForm = route.form === true
  // A schema with a fault may not compile. The document is rejected in any case.
  const isValid = faults.faults.length === before
  const inBody = isForm ? null : bodyCheck(body, route.bulk !== false, context)
  const checks = isValid ? [partCheck(params, 'params', context), partCheck(query, 'query', context), inBody] : []
  return Object.freeze({
    patternCost: costOf([...context.patterns.values()]),
    ...(params !== undefined && { params }),
    ...(query !== undefined && { query }),
    ...isForm && isValid && { validateForm: validateAll(body === undefined ? [] : [textCheck(body, 'body', context)], context.ofTenant) },
    ...(body !== undefined && { body: !isForm && route.bulk === true ? { anyOf: [body, { type: 'array', items: body }] } : body }),
    validate: validateAll(checks.filter((check) => check !== null), context.ofTenant)
  })
}

type Parts = Parameters<CompiledRequest['validate']>[0]

/** null if the value is valid. */
type Check<Value> = (value: Value, budget: CheckBudget) => readonly ErrorDetail[] | null

/** The platform's rules have no budget. */
const noBudget = new CheckBudget()

function validateAll<Value> (checks: readonly Check<Value>[], ofTenant: boolean): (value: Value) => void {
  return (value) => {
    const budget = ofTenant ? new CheckBudget() : noBudget
    let details: ErrorDetail[] | undefined
    for (const check of checks) {
      const found = check(value, budget)
      if (found !== null) details = [...details ?? [], ...found]
    }
    if (details !== undefined) throw failure('validationFailed', { extras: { details: details.slice(0, maxDetails) } })
  }
}

function paramsSchema (
  map: RequestRules['params'],
  pointer: string,
  context: FieldContext,
  names: readonly string[]
): JsonSchema | undefined {
  for (const name of Object.keys(map ?? {})) {
    if (!names.includes(name)) context.faults.add(pointerTo(pointer, name), 'the path has no parameter with this name', nearest(name, names))
  }
  if (names.length === 0) return undefined
  const text: Field = { type: 'string' }
  const fields = Object.fromEntries(
    names.map((name) => [name, { ...map !== undefined && Object.hasOwn(map, name) ? map[name] : text, required: true }])
  )
  return objectSchema(fields, pointer, context, { open: true })
}

function querySchema (
  map: RequestRules['query'],
  pointer: string,
  context: FieldContext,
  open: boolean,
  route: RequestRoute
): JsonSchema | undefined {
  const known: Record<string, Field> = {}
  if (route.paginated) {
    known['limit'] = { type: 'integer', minimum: 0, maximum: maxInteger, description: 'The maximum number of records per page.' }
    known['offset'] = { type: 'integer', minimum: 0, maximum: maxInteger, description: 'The number of skipped records.' }
  }
  if (route.hardDelete) known['hard'] = { type: 'boolean', description: 'Permanently remove the record instead of marking it as deleted.' }
  const fields = { ...known, ...map }
  for (const [name, field] of Object.entries(route.parameters ?? {})) {
    fields[name] = { ...field, ...map !== undefined && Object.hasOwn(map, name) ? map[name] : undefined }
  }
  if (map === undefined && Object.keys(fields).length === 0) return undefined
  return objectSchema(fields, pointer, context, { open: open || map === undefined })
}

function partCheck (schema: JsonSchema | undefined, part: 'params' | 'query', context: FieldContext): Check<Parts> | null {
  if (schema === undefined || admitsAllText(schema)) return null
  const lists = part === 'query' ? listNames(schema) : []
  const check = textCheck(schema, part, context)
  return (request, budget) => {
    splitLists(request[part], lists)
    return check(request[part], budget)
  }
}

/** Texts of a URL or of a form, which are coerced in place. Repeated fields are arrays. */
function textCheck (schema: JsonSchema, part: RequestPart, { ofTenant, patterns }: FieldContext): Check<unknown> {
  const check: PartValidator = ofTenant
    ? createPartValidator(schema, { patterns, coerces: true })
    : lazyValidator(schema, part === 'body' ? 'query' : part)
  return (value, budget) => detailsOf(check(value, budget), part)
}

/** The fields with the type array. */
function listNames ({ properties }: JsonSchema): readonly string[] {
  return Object.entries(Object(properties)).flatMap(([name, property]) => [Object(property).type].flat().includes('array') ? [name] : [])
}

/** An array in a query string is a comma-separated string, a repeated parameter, or both. */
function splitLists (query: unknown, names: readonly string[]): void {
  if (names.length === 0 || !isRecord(query)) return
  for (const name of names) {
    const given = Object.hasOwn(query, name) ? query[name] : undefined
    const texts = Array.isArray(given) ? given : [given]
    if (given !== undefined) query[name] = texts.flatMap((text: unknown) => typeof text === 'string' ? splitList(text) : [text])
  }
}

/** Path parameters without rules need no check, because they are always strings. */
function admitsAllText ({ properties, additionalProperties }: JsonSchema): boolean {
  return additionalProperties !== false &&
    Object.values(Object(properties)).every((property) => JSON.stringify(property) === '{"type":"string"}')
}

function bodyCheck (schema: JsonSchema | undefined, bulk: boolean, { ofTenant, patterns }: FieldContext): Check<Parts> | null {
  if (schema === undefined) return null
  const isRequired = Array.isArray(schema['required'])
  const validatorOf = (of: JsonSchema): PartValidator =>
    ofTenant ? createPartValidator(of, { patterns, coerces: false }) : lazyValidator(of, 'body')
  const validate = validatorOf(schema)
  const validateItems = validatorOf({ type: 'array', items: schema })
  return ({ body }, budget) => {
    if (body === undefined || body === null) {
      return isRequired ? [{ path: '/body', message: 'is required: send a JSON object', keyword: 'required' }] : null
    }
    return detailsOf(bulk && Array.isArray(body) ? validateItems(body, budget) : validate(body, budget), 'body')
  }
}

function detailsOf (errors: readonly ErrorObject[] | null, part: RequestPart): ErrorDetail[] | null {
  return errors === null ? null : errorDetails(errors, part)
}
