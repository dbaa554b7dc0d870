/** The input of a tool: the parameters of a route's path and query string side by side, and its body as `body`. */
import { bodyMember } from '../document/rules/tools.js'
import type { JsonSchema } from '../expressions/types.js'
import { isRecord } from '../json/plain-value.js'
import { propertiesOf, requiredOf } from '../queries/schema-members.js'
import { resolvedSchema } from '../validation/shared-schemas.js'

/** The documentation of a route's requests and responses: `response` has schemas by status. */
export type ToolDocumentation = Readonly<Partial<Record<'params' | 'querystring' | 'body' | 'response', unknown>>>

export interface ToolShape {
  readonly inputSchema: JsonSchema
  /** The schema of the successful response, if the route has one. */
  readonly outputSchema?: JsonSchema
  /** Members of the input that go into the query string. */
  readonly query: ReadonlySet<string>
  readonly takesBody: boolean
  /** Characters of the schemas as JSON. */
  readonly size: number
}

/** Writes the schemas of an input or an output, so that they refer to its definitions only. */
export interface SchemaWriter {
  /** A schema at the top is not a reference, unless it has other rules too. */
  write(part: keyof ToolDocumentation, schema: unknown): unknown
  /** The definitions that the written schemas refer to. */
  definitions(): { readonly $defs?: JsonSchema }
}

/** Models accept no other member names. */
const memberName = /^[A-Za-z0-9_.-]{1,64}$/

/** @param params the parameters of the path */
export function toolShape (params: readonly string[], documentation: ToolDocumentation, createWriter: () => SchemaWriter): ToolShape {
  const writer = createWriter()
  const ofPath = propertiesOf(writer.write('params', documentation.params))
  const querystring = writer.write('querystring', documentation.querystring)
  const body = writer.write('body', documentation.body)
  // A name that is also a path parameter stands for the path parameter.
  const query = Object.entries(propertiesOf(querystring)).filter(([name]) =>
    memberName.test(name) && name !== bodyMember && !params.includes(name)
  )
  const definitions = writer.definitions()
  const names = new Set(query.map(([name]) => name))
  const takesBody = isRecord(body)
  const required = [
    ...params,
    ...requiredOf(querystring).filter((name) => names.has(name)),
    ...takesBody && needsBody(body, definitions) ? [bodyMember] : []
  ]
  const outputWriter = createWriter()
  const success = outputWriter.write('response', successOf(documentation.response))
  const input = JSON.stringify({
    type: 'object',
    properties: {
      ...Object.fromEntries(params.map((name) => [name, ofPath[name] ?? { type: 'string' }])),
      ...Object.fromEntries(query),
      ...takesBody && { [bodyMember]: body }
    },
    ...required.length > 0 && { required },
    additionalProperties: false,
    ...definitions
  })
  const output = isRecord(success) ? JSON.stringify({ ...success, ...outputWriter.definitions() }) : ''
  return Object.freeze({
    inputSchema: schemaIn(input),
    ...output !== '' && { outputSchema: schemaIn(output) },
    query: names,
    takesBody,
    size: input.length + output.length
  })
}

/** The schema without the non-JSON members that schemas have in this process. */
function schemaIn (text: string): JsonSchema {
  const schema: unknown = JSON.parse(text)
  return isRecord(schema) ? schema : {}
}

function successOf (response: unknown): JsonSchema | undefined {
  if (!isRecord(response)) return undefined
  const [, schema] = Object.entries(response).find(([status]) => status.startsWith('2')) ?? []
  return isRecord(schema) ? schema : undefined
}

/** A body is required if one of its fields is. */
function needsBody (body: unknown, definitions: JsonSchema, seen = new Set<unknown>()): boolean {
  const { schema } = resolvedSchema(body, { schema: definitions }, () => undefined)
  return [body, schema].some((part) => {
    if (!isRecord(part) || seen.has(part)) return false
    seen.add(part)
    if (requiredOf(part).length > 0) return true
    return [part['anyOf'], part['allOf']].some((parts) =>
      Array.isArray(parts) && parts.some((inner) => needsBody(inner, definitions, seen))
    )
  })
}
