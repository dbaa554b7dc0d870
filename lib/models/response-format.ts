/** JSON Schemas of callers for responses, limited so that checking takes a short time. References are written out. */
import { failure, type TenantryError } from '../errors.js'
import { parseBounded } from '../json/bounds.js'
import { isRecord } from '../json/plain-value.js'
import { stringifyJson } from '../json/stringify.js'
import { type BoundedCheck, createBoundedCheck } from '../validation/bounded-check.js'
import { isSchema, type Keyword, keywords } from './response-keywords.js'

const maxLength = 32_768 // characters per schema
const maxNodes = 1000 // objects and arrays per schema, after its references are written out
const maxExpandedLength = 65_536 // characters, after its references are written out
const maxErrorLength = 300 // characters
const maxShownValue = 60 // characters

export interface ResponseFormat {
  /** The schema, with its references written out. */
  readonly schema: Readonly<Record<string, unknown>>
  /** The value of a response. Throws `providerFailed` if the response is not JSON or does not match. */
  parse(text: string): unknown
}

/** Throws `badRequest` for a schema that is invalid or not supported. */
export function compileResponseFormat (given: Readonly<Record<string, unknown>>): ResponseFormat {
  const text = stringifyJson(given)
  if (text.length > maxLength) throw refused(`it has more than ${maxLength} characters`)
  // Its numbers become doubles, as those of responses.
  const schema = new Expansion(Object(JSON.parse(text))).whole()
  if (schema['type'] !== 'object') throw refused('its `type` must be `object`')
  return { schema, parse: parser(createBoundedCheck(schema)) }
}

function parser (check: BoundedCheck): ResponseFormat['parse'] {
  return (text) => {
    let value: unknown
    try {
      value = parseBounded(text)
    } catch {
      throw failure('providerFailed', { message: 'The response of the model is not the JSON requested by `responseFormat`' })
    }
    const errors = check(value)
    if (errors === 'unfinished') {
      throw failure('providerFailed', { message: 'Checking the response of the model against `responseFormat` takes too long' })
    }
    if (errors.length === 0) return value
    const path = errors[0]?.instancePath ?? ''
    throw failure('providerFailed', {
      message: `The response of the model does not match \`responseFormat\`${path === '' ? '' : ` at ${path.slice(0, maxErrorLength)}`}`
    })
  }
}

/** Writes references out, checks the keywords and counts the result. */
class Expansion {
  readonly #root: Readonly<Record<string, unknown>>
  readonly #open = new Set<string>()
  #nodes = 0
  #length = 0

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
    if (!isRecord(value)) return this.#leaf(value)
    const { $ref: reference, ...rest } = value
    if (reference === undefined) return this.#members(value)
    if (typeof reference !== 'string' || Object.keys(rest).some((name) => name !== 'description' && name !== 'title')) {
      throw refused('a `$ref` cannot have other members')
    }
    if (this.#open.has(reference)) throw refused(`\`${reference.slice(0, 100)}\` refers to itself, which is not supported`)
    for (const [name, value] of Object.entries(rest)) this.#check(name, value)
    // A chain of references takes time too.
    this.#leaf(reference)
    this.#open.add(reference)
    const expanded = this.#schema(this.#find(reference))
    this.#open.delete(reference)
    return isRecord(expanded) ? { ...expanded, ...this.#leaf(rest) } : expanded
  }

  #members (schema: Readonly<Record<string, unknown>>): Record<string, unknown> {
    this.#count()
    return Object.fromEntries(
      Object.entries(schema).map(([name, value]) => {
        const subschemas = this.#check(name, value)
        this.#leaf(name)
        if (subschemas === 'none') return [name, this.#leaf(value)]
        return [name, subschemas === 'members' ? this.#map(value) : this.#schema(value)]
      })
    )
  }

  /** The subschemas of a keyword. */
  #check (name: string, value: unknown): Keyword['subschemas'] {
    const keyword = keywords.get(name)
    if (keyword === undefined) throw refused(`the keyword \`${name}\` is not supported`)
    if (!keyword.accepts(value)) {
      const text = JSON.stringify(value).slice(0, maxShownValue)
      throw refused(`the value ${text} of the keyword \`${name}\` is not supported: expected ${keyword.expected}`)
    }
    return keyword.subschemas
  }

  #map (value: unknown): unknown {
    if (!isRecord(value)) return this.#leaf(value)
    this.#count()
    return Object.fromEntries(Object.entries(value).map(([name, member]) => [this.#leaf(name), this.#schema(member)]))
  }

  #find (reference: string): unknown {
    const [, map = '', name = ''] = /^#\/(\$defs|definitions)\/([^/~%]+)$/.exec(reference) ?? []
    const definitions = this.#root[map]
    if (!isRecord(definitions) || !Object.hasOwn(definitions, name)) {
      throw refused(`\`${reference.slice(0, 100)}\` is not a definition of the schema: expected \`#/$defs/name\``)
    }
    const definition = definitions[name]
    if (!isSchema(definition)) throw refused(`\`${reference.slice(0, 100)}\` is not a schema`)
    return definition
  }

  /** Counts the text of a name, or of a value that is not a schema. */
  #leaf<Value> (value: Value): Value {
    this.#length += JSON.stringify(value).length
    if (this.#length > maxExpandedLength) throw refused(`it has more than ${maxExpandedLength} characters after references are replaced`)
    return value
  }

  #count (): void {
    this.#nodes++
    if (this.#nodes > maxNodes) throw refused(`it has more than ${maxNodes} objects and arrays after references are replaced`)
  }
}

function refused (message: string): TenantryError {
  return failure('badRequest', { message: `\`responseFormat\` is not a supported JSON Schema: ${message.slice(0, maxErrorLength)}` })
}
