/**
 * Validation of requests: the shared ajv instances, Fastify's validator compiler made of them, and what a caller is
 * told (SPEC "Errors": 400 with `details`, DESIGN 12).
 *
 * What comes by URL or header is text, and is coerced to the types of its schema; a body has types, and never is.
 */
import type { ErrorObject, Options, ValidateFunction } from 'ajv'
import { Ajv } from 'ajv'
import formats from 'ajv-formats'
import { pointerTo } from './config/faults.js'
import { failure, type TenantryError } from './errors.js'
import { detailOf, type ErrorDetail } from './validation-detail.js'

export type { ErrorDetail } from './validation-detail.js'

/** The parts of a request as Fastify names them, and as the paths of details do. */
export type RequestPart = 'body' | 'params' | 'query' | 'querystring' | 'headers'

/** Checks one value, coerced in place where the part is; null when it is right. */
export type PartValidator = (value: unknown) => readonly ErrorObject[] | null

const maxDetails = 50
const maxNodes = 1000 // members and items of a body that is told all of its errors; a larger one is told the first

const shared: Options = {
  strict: true,
  strictTypes: false,
  strictTuples: false,
  strictRequired: false,
  allowUnionTypes: true,
  // Otherwise a required `constructor` would always be there.
  ownProperties: true,
  // A validator that fails to compile must not answer for its schema.
  addUsedSchema: false,
  useDefaults: true,
  verbose: true,
  keywords: ['example']
}

/** For params, query strings and headers, which the size of a request line bounds. */
const coercing = withFormats(new Ajv({ ...shared, coerceTypes: 'array', allErrors: true }))
/** For bodies: stops at the first error, so that a large wrong body costs no more than a right one. */
const strict = withFormats(new Ajv(shared))
/** For bodies that are small and wrong. */
const exhaustive = withFormats(new Ajv({ ...shared, allErrors: true }))

function withFormats (ajv: Ajv): Ajv {
  formats.default(ajv, { mode: 'full', formats: ['email', 'uuid', 'date-time', 'date', 'time', 'uri', 'ipv4', 'ipv6', 'hostname'] })
  return ajv
}

/** Makes the check of a part; schemas that are the same text share one. Throws where the schema is none. */
export function compileValidator (schema: object, part: RequestPart): PartValidator {
  const text = JSON.stringify(schema)
  return part === 'body' ? cached(bodyValidators, text, () => bodyValidator(schema)) : cached(urlValidators, text, () => urlValidator(schema))
}

const urlValidators = new Map<string, WeakRef<PartValidator>>()
const bodyValidators = new Map<string, WeakRef<PartValidator>>()
const forgotten = new FinalizationRegistry<{ cache: Map<string, WeakRef<PartValidator>>, text: string }>(({ cache, text }) => {
  if (cache.get(text)?.deref() === undefined) cache.delete(text)
})

function cached (cache: Map<string, WeakRef<PartValidator>>, text: string, make: () => PartValidator): PartValidator {
  const known = cache.get(text)?.deref()
  if (known !== undefined) return known
  const made = make()
  cache.set(text, new WeakRef(made))
  forgotten.register(made, { cache, text })
  return made
}

function urlValidator (schema: object): PartValidator {
  const validate = compileWith(coercing, schema)
  if (!/"(?:number|integer)"/.test(JSON.stringify(schema))) return (value) => validate(value) ? null : validate.errors ?? []
  const numbers = numericFields(schema)
  return (value) => {
    refuseOtherNumbers(value, numbers)
    return validate(value) ? infiniteNumbers(value) : validate.errors ?? []
  }
}

/** A number as JSON writes it. */
const decimal = /^-?\d+(\.\d+)?(e[+-]?\d+)?$/i

function numericFields (schema: object): string[] {
  const properties: unknown = 'properties' in schema ? schema.properties : undefined
  return Object.entries(Object(properties)).filter(([, field]) => {
    const { type }: { type?: unknown } = Object(field)
    return type === 'number' || type === 'integer'
  }).map(([name]) => name)
}

/** ajv coerces whatever JavaScript does: a blank to 0, "0x10" to 16. It coerces no empty text, and says that this is no number. */
function refuseOtherNumbers (value: unknown, names: readonly string[]): void {
  if (typeof value !== 'object' || value === null) return
  for (const name of names) {
    const given: unknown = Object.hasOwn(value, name) ? Reflect.get(value, name) : undefined
    if (typeof given === 'string' && !decimal.test(given)) Reflect.set(value, name, '')
  }
}

/** ajv coerces the text "Infinity" to a number, which no JSON and no column can hold. */
function infiniteNumbers (value: unknown): readonly ErrorObject[] | null {
  for (const [name, member] of Object.entries(Object(value))) {
    if (member === Infinity || member === -Infinity || (Array.isArray(member) && member.some((item) => item === Infinity || item === -Infinity))) {
      return [{ keyword: 'type', instancePath: pointerTo('', name), schemaPath: '', params: { type: 'number' } }]
    }
  }
  return null
}

function bodyValidator (schema: object): PartValidator {
  const validate = compileWith(strict, schema)
  let validateAll: ValidateFunction | undefined
  return (value) => {
    if (validate(value)) return null
    const first = validate.errors ?? []
    if (!isSmall(value)) return first
    validateAll ??= compileWith(exhaustive, schema)
    return validateAll(value) ? first : validateAll.errors ?? first
  }
}

function compileWith (ajv: Ajv, schema: object): ValidateFunction {
  const validate = ajv.compile(schema)
  // ajv would keep every schema for ever; routes come and go with versions of a tenant's document.
  ajv.removeSchema(schema)
  return validate
}

function isSmall (value: unknown): boolean {
  let left = maxNodes
  const visit = (node: unknown): boolean => {
    if (--left < 0) return false
    return typeof node !== 'object' || node === null || Object.values(node).every(visit)
  }
  return visit(value)
}

/** The details of errors of one part: at most 50, each with the JSON Pointer of what is wrong. */
export function errorDetails (errors: readonly ErrorObject[], part: RequestPart): ErrorDetail[] {
  const base = `/${part === 'querystring' ? 'query' : part}`
  const details: ErrorDetail[] = []
  for (const error of errors) {
    if (details.length === maxDetails) break
    // `if` only says that its `then` failed, which says so itself.
    if (error.keyword !== 'if') details.push(detailOf(error, base))
  }
  return details
}

/** The `validationFailed` of a part; fits Fastify's `schemaErrorFormatter`. */
export function validationError (errors: readonly ErrorObject[], part: RequestPart): TenantryError {
  return failure('validationFailed', { extras: { details: errorDetails(errors, part) } })
}

/** Fastify's `validatorCompiler` for the built-in endpoints: throws nothing, hands over a `validationFailed`. */
export function validatorCompiler ({ schema, httpPart }: { schema: object, httpPart?: string }): (value: unknown) => { value: unknown } | { error: TenantryError } {
  const part = partOf(httpPart)
  const validate = compileValidator(schema, part)
  return (value) => {
    const errors = validate(value)
    return errors === null ? { value } : { error: validationError(errors, part) }
  }
}

function partOf (httpPart: string | undefined): RequestPart {
  switch (httpPart) {
    case 'params': case 'headers': return httpPart
    case 'querystring': case 'query': return 'query'
    default: return 'body'
  }
}
