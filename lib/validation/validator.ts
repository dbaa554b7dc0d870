/**
 * Validation of requests: the shared ajv instances, Fastify's validator compiler, and the details of a 400.
 *
 * Values of URLs and headers are text and are converted to the types of their schemas. Bodies are never converted.
 */
import { createRequire } from 'node:module'
import type { Ajv, ErrorObject, Options, ValidateFunction } from 'ajv'
import { sharedByText } from '../cache/weak-memo.js'
import { failure, type TenantryError } from '../errors.js'
import { uuidForm } from '../identity/uuid.js'
import { isExact, numberIn } from '../json/exact-number.js'
import { holdsExact } from '../json/parse.js'
import { isRecord } from '../json/plain-value.js'
import { pointerTo } from '../schema/faults.js'
import { detailOf, type ErrorDetail } from './detail.js'
import { checkExact, errorsIn } from './exact.js'
import { fieldsResolved, type Members } from './shared-schemas.js'

export type { ErrorDetail } from './detail.js'

/** The parts of a request in Fastify and in the paths of details. */
export type RequestPart = 'body' | 'params' | 'query' | 'querystring' | 'headers'

/** Checks one value, converted in place for some parts; null if it is valid. */
export type PartValidator = (value: unknown) => readonly ErrorObject[] | null

const maxDetails = 50
const maxNodes = 1000 // members and items of a body with a report of all errors; larger ones get the first error only

const shared: Options = {
  strict: true,
  strictTypes: false,
  strictTuples: false,
  strictRequired: false,
  allowUnionTypes: true,
  // Otherwise a required `constructor` would always be present.
  ownProperties: true,
  // A validator that fails to compile must not stand for its schema.
  addUsedSchema: false,
  useDefaults: true,
  verbose: true,
  // `expected` says in words what a `pattern` or an `enum` accepts.
  keywords: ['example', { keyword: 'expected', schemaType: 'string' }]
}

/** The way of checking by a schema. */
const kinds = {
  /** For params, query strings and headers, which the size of a request line bounds. */
  coercing: { ...shared, coerceTypes: 'array', allErrors: true },
  /** For bodies: stops at the first error, so that a large wrong body costs no more than a valid one. */
  strict: shared,
  /** For small invalid bodies. */
  exhaustive: { ...shared, allErrors: true }
} as const satisfies Record<string, Options>
type Kind = keyof typeof kinds

/** Creates the check of a schema. */
type Compile = (kind: Kind, schema: object) => ValidateFunction

const load = createRequire(import.meta.url)

/** The built-in endpoints, whose schemas are permanent, share an instance of each kind. */
const builtIn = new Map<Kind, Ajv>()
const compileBuiltIn: Compile = (kind, schema) => {
  const known = builtIn.get(kind) ?? createAjv(kinds[kind])
  builtIn.set(kind, known)
  return known.compile(schema)
}

/** Compiles schemas that refer to shared ones. */
function compilerWith (schemas: Members): Compile {
  const instances = new Map<Kind, Ajv>()
  return (kind, schema) => {
    let ajv = instances.get(kind)
    if (ajv === undefined) {
      ajv = createAjv(kinds[kind])
      for (const [id, shared] of Object.entries(schemas)) ajv.addSchema(Object(shared), id)
      instances.set(kind, ajv)
    }
    return ajv.compile(schema)
  }
}

/** Each schema has its own instance of Ajv, which would keep parts of every compiled one. They need no check: the compiler creates them. */
const compileRouteSchema: Compile = (kind, schema) =>
  createAjv({ ...kinds[kind], meta: false, validateSchema: false }).compile(schema)

/** ajv is loaded by its first use, which a server may never have: a tenth of the time and memory of its start. */
function createAjv (options: Options): Ajv {
  const { Ajv }: typeof import('ajv') = load('ajv')
  const { default: formats }: typeof import('ajv-formats') = load('ajv-formats')
  const ajv = new Ajv(options)
  formats.default(ajv, { mode: 'full', formats: ['email', 'date-time', 'date', 'time', 'uri', 'ipv4', 'ipv6', 'hostname'] })
  // Without the prefix `urn:uuid:`, which the database refuses.
  return ajv.addFormat('uuid', uuidForm)
}

/** Creates the check of a part of a route's requests, with integers and decimals of any size; schemas with equal text share one. */
export function compileValidator (schema: object, part: RequestPart): PartValidator {
  return validators[partKind(part)](JSON.stringify(schema), () => exactValidatorOf(schema, part, compileRouteSchema))
}

/** The same, compiled at its first use. Compiling takes ajv a millisecond or two: a thousand routes would take seconds at start. */
export function lazyValidator (schema: object, part: RequestPart): PartValidator {
  let validate: PartValidator | undefined
  return (value) => {
    validate ??= compileValidator(schema, part)
    return validate(value)
  }
}

/** For a built-in endpoint, which accepts only numbers that a double can represent, and for a route. */
function validatorOf (schema: object, part: RequestPart, compile: Compile): PartValidator {
  return part === 'body' ? bodyValidator(schema, compile) : urlValidator(schema, compile)
}

function exactValidatorOf (schema: object, part: RequestPart, compile: Compile): PartValidator {
  const check = validatorOf(schema, part, compile)
  if (part !== 'body') return exactUrlValidator(schema, check)
  return (value) => {
    // parseJson knows which bodies contain exact numbers. Other values are searched if ajv refuses them.
    const isKnown = holdsExact(value)
    const errors = isKnown ? null : check(value)
    return isKnown || errors !== null ? checkExact(schema, value, check) : null
  }
}

/** ajv converts the texts to doubles; the exact numbers replace them. */
function exactUrlValidator (schema: object, check: PartValidator): PartValidator {
  const names = numericFields(schema).map(({ name }) => name)
  if (names.length === 0) return check
  return (value) => {
    const given: Readonly<Record<string, unknown>> = Object(value)
    // Most values are short: nothing is allocated for them.
    let exact: [name: string, texts: unknown][] | null = null
    for (const name of names) if (hasExactText(given[name])) (exact ??= []).push([name, given[name]])
    const errors = check(value)
    if (errors !== null || exact === null) return errors
    for (const [name, texts] of exact) Reflect.set(given, name, exactOf(given[name], texts))
    return errorsIn(schema, value)
  }
}

function hasExactText (value: unknown): boolean {
  return Array.isArray(value) ? value.some(isExactText) : isExactText(value)
}

function isExactText (text: unknown): boolean {
  return typeof text === 'string' && !shortInteger.test(text) && isExact(numberIn(text))
}

/** The converted number of a text, or of each item of a list; other texts stay. */
function exactOf (coerced: unknown, text: unknown): unknown {
  if (Array.isArray(coerced)) return coerced.map((item, index) => exactOf(item, Array.isArray(text) ? text[index] : text))
  const only: unknown = Array.isArray(text) ? text[0] : text
  return typeof coerced === 'number' && typeof only === 'string' ? numberIn(only) : coerced
}

function partKind (part: RequestPart): 'body' | 'url' {
  return part === 'body' ? 'body' : 'url'
}

const validators = { url: sharedByText<PartValidator>(), body: sharedByText<PartValidator>() }
const builtInValidators = { url: sharedByText<PartValidator>(), body: sharedByText<PartValidator>() }

/** @param resolved the schema, without references at its top and in its fields */
function urlValidator (schema: object, compile: Compile, resolved = schema): PartValidator {
  const validate = compile('coercing', schema)
  if (!/"(?:number|integer)"/.test(JSON.stringify(resolved))) return (value) => validate(value) ? null : validate.errors ?? []
  const numbers = numericFields(resolved)
  return (value) => {
    refuseOtherNumbers(value, numbers)
    return validate(value) ? infiniteNumbers(value) : validate.errors ?? []
  }
}

/** A double represents it. */
const shortInteger = /^\d{1,15}$/
/** A number as JSON writes it. */
const decimal = /^-?\d+(\.\d+)?(e[+-]?\d+)?$/i

/** A field whose texts ajv converts to numbers. */
interface NumericField {
  readonly name: string
  /** Also a text outside a list. */
  readonly isSingle: boolean
}

function numericFields (schema: object): NumericField[] {
  const properties: unknown = 'properties' in schema ? schema.properties : undefined
  return Object.entries(Object(properties)).flatMap(([name, field]): NumericField[] => {
    const { type, items }: { type?: unknown, items?: unknown } = Object(field)
    const { type: itemType }: { type?: unknown } = Object(items)
    const hasNumericItems = convertsTexts(itemType) && acceptsList(type)
    // ajv wraps a single text for the type `array`.
    const isSingle = convertsTexts(type) || (hasNumericItems && type !== undefined && !acceptsText(type))
    return isSingle || hasNumericItems ? [{ name, isSingle }] : []
  })
}

/** Whether a type accepts numbers, and no text as it is. */
function convertsTexts (type: unknown): boolean {
  return [type].flat().some((name) => name === 'number' || name === 'integer') && !acceptsText(type)
}

function acceptsText (type: unknown): boolean {
  return [type].flat().includes('string')
}

function acceptsList (type: unknown): boolean {
  return type === undefined || [type].flat().includes('array')
}

/** ajv converts like JavaScript: a blank to 0, "0x10" to 16. For "NaN" it reports that this is not a number. */
function refuseOtherNumbers (value: unknown, fields: readonly NumericField[]): void {
  const values: Record<string, unknown> = Object(value)
  for (const { name, isSingle } of fields) {
    const given = values[name]
    if (Array.isArray(given)) values[name] = given.map((item) => isOtherNumber(item) ? 'NaN' : item)
    else if (isSingle && isOtherNumber(given)) values[name] = 'NaN'
  }
}

/** Not the empty text: it becomes null if that is accepted. */
function isOtherNumber (given: unknown): boolean {
  return typeof given === 'string' && given !== '' && !decimal.test(given)
}

/** ajv converts the text "Infinity" to a number, which neither JSON nor a column can represent. */
function infiniteNumbers (value: unknown): readonly ErrorObject[] | null {
  const values: Readonly<Record<string, unknown>> = Object(value)
  for (const name of Object.keys(values)) {
    const member = values[name]
    if (
      member === Infinity || member === -Infinity ||
      (Array.isArray(member) && member.some((item) => item === Infinity || item === -Infinity))
    ) {
      return [{ keyword: 'type', instancePath: pointerTo('', name), schemaPath: '', params: { type: 'number' } }]
    }
  }
  return null
}

function bodyValidator (schema: object, compile: Compile): PartValidator {
  const validate = compile('strict', schema)
  let validateAll: ValidateFunction | undefined
  return (value) => {
    if (validate(value)) return null
    const first = validate.errors ?? []
    if (!isSmall(value)) return first
    validateAll ??= compile('exhaustive', schema)
    return validateAll(value) ? first : validateAll.errors ?? first
  }
}

/** Whether all errors of a body are reported. */
export function isSmall (value: unknown): boolean {
  let left = maxNodes
  const visit = (node: unknown): boolean => {
    if (--left < 0) return false
    return typeof node !== 'object' || node === null || Object.values(node).every(visit)
  }
  return visit(value)
}

/** The details of one part's errors: at most 50, each with its JSON Pointer. */
export function errorDetails (errors: readonly ErrorObject[], part: RequestPart): ErrorDetail[] {
  const base = `/${part === 'querystring' ? 'query' : part}`
  const details: ErrorDetail[] = []
  const nullable = new Set(errors.filter(isOfNullable).map(({ instancePath }) => instancePath))
  for (const error of errors) {
    if (details.length === maxDetails) break
    // `if` only repeats that its `then` failed.
    const isFurther = error.keyword === 'if' || isOfNullable(error) || (error.params['type'] === 'null' && nullable.has(error.instancePath))
    if (!isFurther) details.push(detailOf(error, base))
  }
  return details
}

/** The value is neither null nor valid by the other schema; only the errors of the other one help. */
function isOfNullable ({ keyword, schema }: ErrorObject): boolean {
  return keyword === 'anyOf' && Array.isArray(schema) && schema.length === 2 &&
    schema.some((branch) => isRecord(branch) && branch['type'] === 'null')
}

/** The `validationFailed` of a part; fits Fastify's `schemaErrorFormatter`. */
export function validationError (errors: readonly ErrorObject[], part: RequestPart): TenantryError {
  return failure('validationFailed', { extras: { details: errorDetails(errors, part) } })
}

const compilersWith = sharedByText<Compile>()

function referringValidator (schema: object, part: RequestPart, shared: Members): PartValidator {
  const compile = compilersWith(JSON.stringify(shared), () => compilerWith(shared))
  return part === 'body' ? bodyValidator(schema, compile) : urlValidator(schema, compile, fieldsResolved(schema, shared))
}

/**
 * Fastify's `validatorCompiler` for built-in endpoints and own routes: returns a `validationFailed` instead of throwing.
 * @param shared the schemas that the schema may refer to, by `$id`
 */
export function validatorCompiler (
  { schema, httpPart }: { schema: object, httpPart?: string },
  shared: () => Members = () => ({})
): (value: unknown) => { value: unknown } | { error: TenantryError } {
  const part = partOf(httpPart)
  const text = JSON.stringify(schema)
  const validate = text.includes('"$ref"')
    ? referringValidator(schema, part, shared())
    : builtInValidators[partKind(part)](text, () => validatorOf(schema, part, compileBuiltIn))
  return (value) => {
    const errors = validate(value)
    return errors === null ? { value } : { error: validationError(errors, part) }
  }
}

function partOf (httpPart: string | undefined): RequestPart {
  switch (httpPart) {
    case 'params':
    case 'headers':
      return httpPart
    case 'querystring':
    case 'query':
      return 'query'
    default:
      return 'body'
  }
}
