/** Converts the input of a tool to the request of its route. */
import { bodyMember } from '../../lib/document/rules/tools.js'
import { failure, type TenantryError } from '../../lib/errors.js'
import { maxParamLength } from '../../lib/http/route-paths.js'
import { jsonExcess } from '../../lib/json/bounds.js'
import { isExact, isNumber } from '../../lib/json/exact-number.js'
import { isRecord } from '../../lib/json/plain-value.js'
import { isStorable } from '../../lib/json/storable.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import type { ErrorDetail } from '../../lib/validation/detail.js'
import type { CompiledTool } from './tool-set.js'
import type { ToolRoute } from './types.js'

const maxUrl = 8192 // characters

export interface ToolRequest {
  readonly url: string
  /** Texts, as the router provides them. */
  readonly params: Record<string, string>
  /** Texts and lists of texts, as the query string parser provides them. */
  readonly query: Record<string, string | string[]>
  /** undefined for a request without a body. */
  readonly body: unknown
  /** The body as JSON. */
  readonly payload: string | undefined
}

/** Throws `validationFailed` for unknown members, and for values that a path cannot contain. The route validates the rest. */
export function requestOf ({ route, path: parts, shape, params }: CompiledTool, input: unknown): ToolRequest {
  const given = input ?? {}
  if (!isRecord(given)) throw invalid({ path: '', message: 'must be an object', keyword: 'type' })
  for (const name in given) {
    if (!isGiven(given[name])) continue
    const isKnown = params.includes(name) || shape.query.has(name) || (shape.takesBody && name === bodyMember)
    if (!isKnown) throw invalid({ path: `/${name}`, message: 'is not an input of this tool', keyword: 'additionalProperties' })
  }
  // Has no prototype, since a parameter may have any name.
  const texts: Record<string, string> = Object.create(null)
  let path = ''
  for (const { text, param } of parts) {
    path += text
    if (param === null) continue
    const value = texts[param] = textOf(param, memberOf(given, param))
    path += encodeURIComponent(value)
  }
  const query: ToolRequest['query'] = Object.create(null)
  const url = shape.query.size === 0 ? path : path + queryOf(given, shape.query, query, route)
  if (url.length > maxUrl) throw invalid({ path: '', message: `must make a URL of at most ${maxUrl} characters`, keyword: 'maxLength' })
  const body = shape.takesBody ? memberOf(given, bodyMember) : undefined
  return { url, params: texts, query, body, payload: body === undefined ? undefined : payloadOf(body) }
}

/** Models send null for omitted members. */
function isGiven (value: unknown): boolean {
  return value !== null && value !== undefined
}

function memberOf (given: Readonly<Record<string, unknown>>, name: string): unknown {
  return Object.hasOwn(given, name) ? given[name] ?? undefined : undefined
}

/** Returns the query string, and fills `query` with its values. */
function queryOf (
  given: Readonly<Record<string, unknown>>,
  names: ReadonlySet<string>,
  query: ToolRequest['query'],
  { serve }: ToolRoute
): string {
  const search = new URLSearchParams()
  for (const name in given) {
    const value = given[name]
    if (!names.has(name) || !isGiven(value)) continue
    for (const item of [value].flat()) search.append(name, typeof item === 'object' && !isExact(item) ? stringifyJson(item) : String(item))
    const [first, ...further] = search.getAll(name)
    if (first === undefined) {
      // A query string cannot contain an empty list: a router would read a list of one empty text.
      if (serve === undefined) continue
      // Without the name, an optional filter of a declared route would be left out, and a cached route would give the same response.
      search.append(name, '')
      query[name] = []
    } else {
      query[name] = further.length === 0 ? first : [first, ...further]
    }
  }
  const text = search.toString()
  return text === '' ? '' : `?${text}`
}

/** An empty segment, `.` or `..` would match another route. */
function textOf (name: string, value: unknown): string {
  const path = `/${name}`
  if (value === undefined) throw invalid({ path, message: 'is required', keyword: 'required' })
  if (typeof value !== 'string' && typeof value !== 'boolean' && !isNumber(value)) {
    throw invalid({ path, message: 'must be a string, a number or a boolean', keyword: 'type' })
  }
  const text = String(value)
  if (text === '' || text === '.' || text === '..' || !isStorable(text)) {
    throw invalid({ path, message: 'must be text that is allowed in a path', keyword: 'format' })
  }
  if (text.length > maxParamLength) throw invalid({ path, message: `must have at most ${maxParamLength} characters`, keyword: 'maxLength' })
  return text
}

/** Throws `badRequest` for a value that the body parser would reject: a model may send any value. */
function payloadOf (body: unknown): string {
  const text = stringifyJson(body)
  const excess = jsonExcess(text)
  if (excess !== null) throw failure('badRequest', { message: `The body ${excess}` })
  if (text.includes('"__proto__":') || (text.includes('"constructor":') && text.includes('"prototype":'))) {
    throw failure('badRequest', { message: 'The body contains the forbidden key "__proto__" or "constructor"' })
  }
  return text
}

function invalid (detail: ErrorDetail): TenantryError {
  return failure('validationFailed', {
    message: `Validation failed; ${`${detail.path} ${detail.message}`.trim()}`,
    extras: { details: [detail] }
  })
}
