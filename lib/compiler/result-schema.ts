/** The JSON Schema of a route's response, derived from its queries, its transform and its `response`. */
import type { ResultKind } from '../expressions/result.js'
import type { JsonSchema } from '../expressions/types.js'
import { isNumber } from '../json/exact-number.js'
import { isRecord } from '../json/plain-value.js'
import type { RouteQuery } from '../queries/compiled-query.js'
import { anyOf, formsOfQuery, listOf } from '../queries/query-result.js'
import { objectOf, propertiesOf, requiredOf, requiring } from '../queries/schema-members.js'
import { type FaultList, nearest, pointerTo } from '../schema/faults.js'
import type { CompiledResponse } from './response.js'
import type { CompiledTransform } from './transform.js'

/** The parts of a compiled route that determine its response. */
export interface ResultParts {
  readonly queries: readonly RouteQuery[]
  readonly integrations: readonly unknown[]
  readonly transform: CompiledTransform | null
  readonly response: CompiledResponse | null
}

/** One form of the response: a list wraps its records, and a write that creates records has both forms. */
interface Form {
  readonly kind: ResultKind | 'several'
  readonly schema: JsonSchema
}

/** The schema of the body; `response` is the configured value. */
export function resultSchema ({ queries, integrations, transform, response }: ResultParts, configured: unknown): JsonSchema {
  // The response of another service has no known schema.
  if (queries.length === 0 && integrations.length > 0 && response === null) return {}
  const forms = formsOf(queries).map((form) => computed(form, transform))
  if (response === null) return anyOf(forms.map(({ schema }) => schema))
  if (response.kind === 'schema') return anyOf(forms.map((form) => filtered(form, response.schema)))
  return mappingBody(configured, resultSchemas(queries, forms))
}

/** Adds a fault for each member that the response schema requires and the response never has: the documentation would be wrong. */
export function checkPromises (
  { queries, transform, response }: Omit<ResultParts, 'integrations'>,
  pointer: string,
  faults: FaultList
): void {
  if (queries.length === 0 || response?.kind !== 'schema') return
  const reported = new Set<string>()
  for (const { kind, schema } of formsOf(queries).map((form) => computed(form, transform))) {
    const isWhole = !isList(kind) || Object.hasOwn(propertiesOf(response.schema), 'data')
    const { data } = propertiesOf(schema)
    comparePromises(response.schema, isWhole ? schema : data, pointer, (at, name, known) => {
      if (reported.has(at)) return
      reported.add(at)
      if (known.includes(name)) faults.add(at, `"${name}" is not among the \`properties\`, so the response omits it`)
      else faults.add(at, `the response has no member "${name}"`, nearest(name, known))
    })
  }
}

/** Adds a fault for members that the transform replaces, or the response schema leaves out, although a cursor reveals their values. */
export function checkCursorMembers (
  { queries, transform, response }: Omit<ResultParts, 'integrations'>,
  pointer: string,
  faults: FaultList
): void {
  const members = queries.flatMap(({ cursorMembers }) => cursorMembers)
  const replaced = members.filter((name) => transform?.names.record.includes(name))
  if (replaced.length > 0) {
    faults.add(
      `${pointer}/transform`,
      `the cursor of the list reveals the values of ${replaced.join(', ')}, which the transform replaces: give its field another name, or order by other columns`
    )
  }
  if (response?.kind !== 'schema' || members.length === 0) return
  const { data } = propertiesOf(response.schema)
  const record = itemsOf(isRecord(data) ? data : response.schema)
  if (!isRecord(record['properties']) || record['additionalProperties'] === true) return
  const hidden = members.filter((name) => !Object.hasOwn(propertiesOf(record), name))
  if (hidden.length > 0) {
    faults.add(
      `${pointer}/response`,
      `the cursor of the list reveals the values of ${hidden.join(', ')}, which the response omits: add them to \`properties\`, or order by other columns`
    )
  }
}

function itemsOf (schema: JsonSchema): JsonSchema {
  return !isRecord(schema['properties']) && isRecord(schema['items']) ? schema['items'] : schema
}

/** Treats an array schema as the schema of its items, as the response writer does. */
function comparePromises (
  promised: unknown,
  known: unknown,
  pointer: string,
  report: (at: string, name: string, known: readonly string[]) => void
): void {
  if (!isRecord(promised) || !isRecord(known)) return
  if (isRecord(known['items'])) return comparePromises(promised, known['items'], pointer, report)
  if (isRecord(promised['items']) && !isRecord(promised['properties'])) {
    return comparePromises(promised['items'], known, `${pointer}/items`, report)
  }
  if (!isRecord(known['properties']) || known['additionalProperties'] === true) return
  const returned = propertiesOf(known)
  const declared = propertiesOf(promised)
  const { required, additionalProperties } = promised
  const isOpen = !isRecord(promised['properties']) || additionalProperties === true || isRecord(additionalProperties)
  for (const [index, name] of (Array.isArray(required) ? required : []).entries()) {
    const isReturned = Object.hasOwn(returned, name) && (isOpen || Object.hasOwn(declared, name))
    if (typeof name === 'string' && !isReturned) report(pointerTo(`${pointer}/required`, index), name, Object.keys(returned))
  }
  for (const [name, member] of Object.entries(declared)) {
    if (Object.hasOwn(returned, name)) comparePromises(member, returned[name], pointerTo(`${pointer}/properties`, name), report)
  }
}

/** The schema of the result of the queries, without a transform. */
export function queriedSchema (queries: readonly RouteQuery[]): JsonSchema {
  return anyOf(formsOf(queries).map(({ schema }) => schema))
}

function formsOf (queries: readonly RouteQuery[]): Form[] {
  const [first] = queries
  if (first !== undefined && queries.length === 1) return formsOfQuery(first)
  const members = queries.map((query) => [query.key, queriedSchema([query])] as const)
  return [{ kind: 'several', schema: objectOf(Object.fromEntries(members)) }]
}

/** The schema of a computed field is empty, because expressions have no types. */
function computed ({ kind, schema }: Form, transform: CompiledTransform | null): Form {
  if (transform === null) return { kind, schema }
  const { record, result } = transform.names
  if (!isList(kind)) return { kind, schema: withMembers(schema, [...record, ...result]) }
  const { data, ...others } = propertiesOf(schema)
  const items = isRecord(data) && isRecord(data['items']) ? data['items'] : {}
  const list = { ...schema, properties: { data: { type: 'array', items: withMembers(items, record) }, ...others } }
  return { kind, schema: withMembers(list, result) }
}

function withMembers (schema: JsonSchema, names: readonly string[]): JsonSchema {
  if (names.length === 0) return schema
  return {
    ...schema,
    properties: { ...propertiesOf(schema), ...Object.fromEntries(names.map((name) => [name, {}])) },
    required: [...new Set([...requiredOf(schema), ...names])]
  }
}

/** A response schema of one record, or of an array of records, applies to each record; a list keeps its envelope (response.ts). */
function filtered ({ kind, schema: resultSchema }: Form, schema: JsonSchema): JsonSchema {
  if (Object.hasOwn(propertiesOf(schema), 'data')) return schema
  const record = itemsOf(schema)
  if (!isList(kind)) return record
  const { pagination } = propertiesOf(resultSchema)
  return isRecord(pagination) ? listOf(record, pagination) : listOf(record)
}

/** The schemas of `{{results.<key>}}` in a response. */
function resultSchemas (queries: readonly RouteQuery[], forms: readonly Form[]): JsonSchema {
  const whole = anyOf(forms.map(({ schema }) => schema))
  const [first] = queries
  return first !== undefined && queries.length === 1 ? objectOf({ [first.key]: whole }) : whole
}

/** The body of a mapping. If it is one template, it is null where the result lacks the value. */
function mappingBody (value: unknown, results: JsonSchema): JsonSchema {
  const schema = mappingSchema(value, results)
  const path = resultPath(value)
  const isAny = Object.keys(schema).length === 0
  return path === undefined || isAny || hasMember(results, path) ? schema : { anyOf: [schema, { type: 'null' }] }
}

/** The known members of a mapping. A value of the request may have any type, or may be missing. */
function mappingSchema (value: unknown, results: JsonSchema): JsonSchema {
  if (Array.isArray(value)) return { type: 'array' }
  if (isRecord(value)) {
    const members = Object.entries(value).filter(([, member]) => member !== undefined)
    return {
      type: 'object',
      properties: Object.fromEntries(members.map(([name, member]) => [name, mappingSchema(member, results)])),
      // A template may evaluate to nothing, and then its member is left out.
      ...requiring(members.filter(([, member]) => typeof member !== 'string' || !member.includes('{{')).map(([name]) => name))
    }
  }
  if (value === null) return { type: 'null' }
  if (typeof value !== 'string') return isNumber(value) ? { type: 'number' } : typeof value === 'boolean' ? { type: 'boolean' } : {}
  if (!value.includes('{{')) return { type: 'string' }
  const path = resultPath(value)
  return path === undefined ? {} : memberAt(results, path)
}

/** The path of a template that is the whole value, within the results. */
function resultPath (value: unknown): string[] | undefined {
  const [, path] = typeof value === 'string' ? /^\{\{\s*results\.([\w.-]+)\s*\}\}$/.exec(value) ?? [] : []
  return path?.split('.')
}

function memberAt (schema: JsonSchema, path: readonly string[]): JsonSchema {
  const [name, ...rest] = path
  if (name === undefined) return schema
  const properties = propertiesOf(schema)
  const member = Object.hasOwn(properties, name) ? properties[name] : undefined
  return isRecord(member) ? memberAt(member, rest) : {}
}

/** Whether every value of the schema has the member. */
function hasMember (schema: unknown, [name, ...rest]: readonly string[]): boolean {
  if (name === undefined) return true
  if (!isRecord(schema) || schema['type'] !== 'object' || !requiredOf(schema).includes(name)) return false
  return hasMember(propertiesOf(schema)[name], rest)
}

function isList (kind: Form['kind']): boolean {
  return kind === 'page' || kind === 'cursorPage' || kind === 'records'
}
