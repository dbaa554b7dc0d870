/** Converts the input of a tool to the request of its route. */
import type { CompiledTool } from './compiled.js'
import type { ErrorDetail } from '../../lib/validation/detail.js'
import { bodyMember } from '../../lib/document/rules/tools.js'
import { failure, type TenantryError } from '../../lib/errors.js'
import { isExact } from '../../lib/json/exact-number.js'
import { isStorable } from '../../lib/json/storable.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import { isRecord } from '../../lib/json/plain-value.js'

const maxUrl = 8192 // characters

export interface ToolRequest {
  readonly url: string
  /** JSON; undefined for a request without a body. */
  readonly payload: string | undefined
}

/** Throws `validationFailed` for unknown members, and for values that no path can contain. The route checks the rest. */
export function requestOf ({ route, shape, params }: CompiledTool, input: unknown): ToolRequest {
  const given = input ?? {}
  if (!isRecord(given)) throw invalid({ path: '', message: 'must be an object', keyword: 'type' })
  // Models send null for members that they omit.
  const members = new Map(Object.entries(given).filter(([, value]) => value !== null && value !== undefined))
  for (const name of members.keys()) {
    const isKnown = params.includes(name) || shape.query.has(name) || (shape.takesBody && name === bodyMember)
    if (!isKnown) throw invalid({ path: `/${name}`, message: 'is no member of the input of this tool', keyword: 'additionalProperties' })
  }
  const segments = route.path.split('/').map((segment) =>
    segment.startsWith(':') ? segmentOf(segment.slice(1), members.get(segment.slice(1))) : segment
  )
  const body = members.get(bodyMember)
  const url = segments.join('/') + queryOf(members, shape.query)
  if (url.length > maxUrl) throw invalid({ path: '', message: `must make a URL of at most ${maxUrl} characters`, keyword: 'maxLength' })
  return { url, payload: shape.takesBody && body !== undefined ? stringifyJson(body) : undefined }
}

function queryOf (members: ReadonlyMap<string, unknown>, names: ReadonlySet<string>): string {
  if (names.size === 0) return ''
  const search = new URLSearchParams()
  for (const [name, value] of members) {
    if (!names.has(name)) continue
    for (const item of [value].flat()) search.append(name, typeof item === 'object' && !isExact(item) ? stringifyJson(item) : String(item))
  }
  const text = search.toString()
  return text === '' ? '' : `?${text}`
}

/** An empty segment, `.` and `..` would lead to another route. */
function segmentOf (name: string, value: unknown): string {
  const path = `/${name}`
  if (value === undefined) throw invalid({ path, message: 'is required', keyword: 'required' })
  if (typeof value !== 'string' && typeof value !== 'number' && typeof value !== 'boolean') {
    throw invalid({ path, message: 'must be a string, a number or a boolean', keyword: 'type' })
  }
  const text = String(value)
  if (text === '' || text === '.' || text === '..' || !isStorable(text)) {
    throw invalid({ path, message: 'must be a text that can stand in a path', keyword: 'format' })
  }
  return encodeURIComponent(text)
}

function invalid (detail: ErrorDetail): TenantryError {
  return failure('validationFailed', {
    message: `Validation failed; ${`${detail.path} ${detail.message}`.trim()}`,
    extras: { details: [detail] }
  })
}
