/** JSON Schemas of callers for responses, limited so that compiling and checking take a short time. References are written out. */
import { Ajv, type ValidateFunction } from 'ajv'
import formats from 'ajv-formats'
import { LRUCache } from 'lru-cache'
import { failure, type TenantryError } from '../errors.js'
import { parseBounded } from '../json/bounds.js'
import { isRecord } from '../json/plain-value.js'
import { stringifyJson } from '../json/stringify.js'

const maxLength = 32_768 // characters per schema
const maxNodes = 1000 // objects and arrays per schema, after its references are written out
const maxKept = 200 // compiled schemas
const maxErrorLength = 300 // characters

export interface ResponseFormat {
  /** The schema, with its references written out. */
  readonly schema: Readonly<Record<string, unknown>>
  /** The value of a response. Throws `providerFailed` if the response is not JSON or does not match. */
  parse(text: string): unknown
}

const refusedKeywords: ReadonlySet<string> = new Set([
  '$id', 'id', '$async', '$anchor', '$dynamicRef', '$dynamicAnchor', '$recursiveRef', 'pattern', 'patternProperties',
  'uniqueItems'
])
/** Their values are data, not schemas. */
const dataKeywords: ReadonlySet<string> = new Set(['const', 'enum', 'default', 'examples'])
/** The names of their members are chosen by the caller. */
const mapKeywords: ReadonlySet<string> = new Set([
  'properties', '$defs', 'definitions', 'dependentSchemas', 'dependentRequired', 'dependencies'
])

const known = new LRUCache<string, ResponseFormat>({ max: maxKept })
const meta = new Ajv({ strict: false })

/** Throws `badRequest` for a schema that is invalid or not supported. */
export function compileResponseFormat (given: Readonly<Record<string, unknown>>): ResponseFormat {
  const text = stringifyJson(given)
  if (text.length > maxLength) throw refused(`it has more than ${maxLength} characters`)
  const found = known.get(text)
  if (found !== undefined) return found
  // Its numbers become doubles, which Ajv compares.
  const schema = new Expansion(Object(JSON.parse(text))).whole()
  const made = { schema, parse: parser(compile(schema)) }
  known.set(text, made)
  return made
}

function compile (schema: Record<string, unknown>): ValidateFunction {
  if (schema['type'] !== 'object') throw refused('its `type` must be `object`')
  if (meta.validateSchema(schema) !== true) throw refused(meta.errorsText(meta.errors, { dataVar: 'schema' }))
  try {
    // An instance of Ajv keeps parts of every schema that it has compiled.
    const ajv = new Ajv({
      meta: false,
      validateSchema: false,
      strict: true,
      strictTypes: false,
      strictTuples: false,
      strictRequired: false,
      allowUnionTypes: true,
      ownProperties: true,
      inlineRefs: false
    })
    formats.default(ajv, { mode: 'fast', formats: ['email', 'uuid', 'date-time', 'date', 'time', 'uri', 'ipv4', 'ipv6', 'hostname'] })
    return ajv.compile(schema)
  } catch (error) {
    throw refused(error instanceof Error ? error.message : 'it cannot be compiled')
  }
}

function parser (validate: ValidateFunction): ResponseFormat['parse'] {
  return (text) => {
    let value: unknown
    try {
      value = parseBounded(text)
    } catch {
      throw failure('providerFailed', { message: 'The response of the model is not the JSON requested by `responseFormat`' })
    }
    if (validate(value)) return value
    const path = validate.errors?.[0]?.instancePath ?? ''
    throw failure('providerFailed', {
      message: `The response of the model does not match \`responseFormat\`${path === '' ? '' : ` at ${path.slice(0, maxErrorLength)}`}`
    })
  }
}

/** Writes references out and counts the result. */
class Expansion {
  readonly #root: Readonly<Record<string, unknown>>
  readonly #open = new Set<string>()
  #nodes = 0

  constructor (root: Readonly<Record<string, unknown>>) {
    this.#root = root
  }

  whole (): Record<string, unknown> {
    const { $schema, $defs, definitions, ...rest } = this.#root
    return this.#members(rest)
  }

  #schema (value: unknown): unknown {
    if (Array.isArray(value)) {
      this.#count()
      return value.map((item: unknown) => this.#schema(item))
    }
    if (!isRecord(value)) return value
    const { $ref: reference, ...rest } = value
    if (reference === undefined) return this.#members(value)
    if (typeof reference !== 'string' || Object.keys(rest).some((name) => name !== 'description' && name !== 'title')) {
      throw refused('a `$ref` cannot have other members')
    }
    if (this.#open.has(reference)) throw refused(`\`${reference.slice(0, 100)}\` refers to itself, which is not supported`)
    this.#open.add(reference)
    const expanded = this.#schema(this.#find(reference))
    this.#open.delete(reference)
    return isRecord(expanded) ? { ...expanded, ...rest } : expanded
  }

  #members (schema: Readonly<Record<string, unknown>>): Record<string, unknown> {
    this.#count()
    return Object.fromEntries(
      Object.entries(schema).map(([name, value]) => {
        if (refusedKeywords.has(name)) throw refused(`the keyword \`${name}\` is not supported`)
        if (dataKeywords.has(name) || (name === 'required' && Array.isArray(value))) return [name, value]
        return [name, mapKeywords.has(name) ? this.#map(value) : this.#schema(value)]
      })
    )
  }

  #map (value: unknown): unknown {
    if (!isRecord(value)) return value
    this.#count()
    return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, this.#schema(member)]))
  }

  #find (reference: string): unknown {
    const [, map = '', name = ''] = /^#\/(\$defs|definitions)\/([^/~%]+)$/.exec(reference) ?? []
    const definitions = this.#root[map]
    if (!isRecord(definitions) || !Object.hasOwn(definitions, name)) {
      throw refused(`\`${reference.slice(0, 100)}\` is not a definition of the schema: expected \`#/$defs/name\``)
    }
    return definitions[name]
  }

  #count (): void {
    this.#nodes++
    if (this.#nodes > maxNodes) throw refused(`it has more than ${maxNodes} objects and arrays after references are replaced`)
  }
}

function refused (message: string): TenantryError {
  return failure('badRequest', { message: `\`responseFormat\` is not a supported JSON Schema: ${message.slice(0, maxErrorLength)}` })
}
