/** The documentation of a compiled route: request, responses and errors as JSON Schemas, derived from the route. */
import type { ErrorName } from '../errors.js'
import { formOf } from '../expressions/result.js'
import type { JsonSchema } from '../expressions/types.js'
import { notModified } from '../http/caching.js'
import { objectOf, propertiesOf } from '../queries/schema-members.js'
import type { Route } from '../schema/route.js'
import { schemaName } from '../validation/named-schema.js'
import { formSchema } from './files.js'
import { resultSchema } from './result-schema.js'
import type { CompiledRoute } from './route.js'
import { workflowResponseSchema } from './workflow.js'
import { supportsIfMatch, takesIdempotencyKey } from './write-headers.js'

/** The members of a Fastify route schema that are used for the OpenAPI document. */
export interface RouteDocumentation {
  readonly summary: string
  readonly description?: string
  /** Default: the first segment of the path. */
  readonly tags: readonly string[]
  /** A configuration document declares the route. */
  readonly declared: true
  readonly params?: JsonSchema
  readonly querystring?: JsonSchema
  readonly headers?: JsonSchema
  /** The schema of `request`; without one, the input of the route's writes, or else the members that templates read. */
  readonly body?: JsonSchema
  readonly bodyOptional?: true
  /** Media types of the body. Default: JSON. */
  readonly consumes?: readonly string[]
  /** Schemas of the successful responses by status. */
  readonly response: Readonly<Record<number, JsonSchema>>
  /** The errors of the route: statuses, or names in the error catalogue if the body has more members. */
  readonly errors: ReadonlyArray<number | ErrorName>
  readonly cached?: true
  readonly takesIdempotencyKey?: true
  /** Its 201 has the header Location. */
  readonly location?: true
  readonly supportsIfMatch?: true
}

const inFirestore = 'The documents are in Firestore: changes send no `entity.*` events to webhooks, and cannot be watched.'

const received = objectOf({ received: { const: true } })

/** @param read the `GET` route on its path */
export function documentRoute (route: Route, parts: CompiledRoute, read?: CompiledRoute): RouteDocumentation {
  const hasVersion = read !== undefined && supportsIfMatch(parts, read)
  const { params } = parts.request
  const query = withRead(parts.request.query, parts.readsQuery)
  const headers = withRead(undefined, parts.readsHeaders.filter((name) => !describedElsewhere.has(name.toLowerCase())))
  const body = bodySchema(parts)
  return Object.freeze({
    summary: route.description ?? `${parts.method} ${route.path}`,
    ...describe(route, parts),
    tags: route.tags ?? [groupOf(route.path)],
    declared: true,
    ...(params !== undefined && { params }),
    ...(query !== undefined && { querystring: query }),
    ...(headers !== undefined && { headers }),
    ...(body === undefined ? readBody(parts) : { body }),
    ...(parts.files !== null && { consumes: ['multipart/form-data'] }),
    response: responsesOf(route, parts),
    errors: [...errorsOf(parts), ...hasVersion ? [412] : []],
    ...(parts.cache !== null && { cached: true }),
    ...(takesIdempotencyKey(parts) && { takesIdempotencyKey: true }),
    ...(parts.location !== null && { location: true }),
    ...(hasVersion && { supportsIfMatch: true })
  })
}

function describe ({ description, realtime }: Route, { firestore }: CompiledRoute): Pick<RouteDocumentation, 'description'> {
  const parts = [
    ...description === undefined ? [] : [description],
    ...firestore === 'writes' ? [inFirestore] : [],
    ...realtime === undefined ? [] : [`Sends a message to the members of the room \`${realtime.room}\`.`]
  ]
  return parts.length === 0 ? {} : { description: parts.join('\n\n') }
}

/** The first segment of the path that is not a parameter. */
function groupOf (path: string): string {
  return path.split('/').find((segment) => segment !== '' && !/[:*]/.test(segment)) ?? 'default'
}

/** Headers that OpenAPI does not describe as parameters, and the header that names the tenant. */
const describedElsewhere: ReadonlySet<string> = new Set(['accept', 'content-type', 'authorization', 'x-api-key', 'x-tenant-id'])

/** The schema, extended by undeclared names that templates read. They are optional strings. */
function withRead (schema: JsonSchema | undefined, names: readonly string[]): JsonSchema | undefined {
  if (schema?.['additionalProperties'] === false) return schema
  const declared = propertiesOf(schema)
  const undeclared = names.filter((name) => !Object.hasOwn(declared, name))
  if (undeclared.length === 0) return schema
  return {
    type: 'object',
    ...schema,
    properties: { ...declared, ...Object.fromEntries(undeclared.map((name) => [name, { type: 'string' }])) }
  }
}

function responsesOf (route: Route, parts: CompiledRoute): Readonly<Record<number, JsonSchema>> {
  const { status, workflow, response, webhook } = parts
  if (webhook?.acknowledges === true) return { 200: { description: 'Success', ...received } }
  const schema = (workflow === null ? undefined : workflowResponseSchema(workflow, response)) ?? resultSchema(parts, route.response)
  // A named schema is returned itself, because a copy would lose its name.
  if (webhook === null) {
    const success = schemaName(schema) === undefined ? { description: 'Success', ...schema } : schema
    // Responses above the size limit have no ETag.
    return parts.isRead ? { [status]: success, 304: { ...notModified } } : { [status]: success }
  }
  // 200 is also the response to a repeated delivery.
  if (status === 200) return { 200: { description: 'Success', anyOf: [schema, received] } }
  return { [status]: { description: 'Success', ...schema }, 200: { description: 'The delivery was already processed.', ...received } }
}

function bodySchema (parts: CompiledRoute): JsonSchema | undefined {
  const { method, request, queries, files } = parts
  if (files !== null) return formSchema(request.body ?? readBody(parts).body, files)
  if (request.body !== undefined || method === 'GET') return request.body
  const inputs = queries.flatMap(({ input }) => input === null ? [] : [input])
  return inputs.length > 1 ? { allOf: inputs } : inputs[0]
}

/** The members that only templates and expressions read. */
function readBody ({ method, readsBody }: CompiledRoute): Pick<RouteDocumentation, 'body' | 'bodyOptional'> {
  if (method === 'GET' || readsBody?.length === 0) return {}
  const body = readsBody === null ? {} : { type: 'object', properties: Object.fromEntries(readsBody.map((name) => [name, {}])) }
  return { body, bodyOptional: true }
}

function errorsOf (
  { method, requireAuth, permissions, resourceLimit, queries, integrations, transform, workflow, webhook, files }: CompiledRoute
): Array<number | ErrorName> {
  // 503: every route waits for a pending migration, and a stopping server rejects requests.
  const statuses = new Set([400, 401, 429, 500, 503])
  if (method !== 'GET') statuses.add(413).add(415)
  if (requireAuth || permissions.length > 0) statuses.add(403)
  // 409: the tenant has counters for too many users.
  if (resourceLimit !== null) statuses.add(402).add(409)
  if (queries.some((query) => formOf(query.resultKind) === 'record')) statuses.add(404)
  if (queries.some((query) => query.write)) statuses.add(409)
  // An expression exceeds its budget, or a function rejects the call.
  const hasExpressions = transform !== null || integrations.some(({ condition }) => condition !== null) || workflow?.async === false
  if (hasExpressions || queries.some((query) => query.callsFunction === true)) statuses.add(422)
  // 409: the same delivery is being handled.
  if (webhook !== null) statuses.add(409)
  if (integrations.length > 0) statuses.add(502).add(504)
  // A run counts towards the caller's limits, and fails with the error of its last step.
  if (workflow !== null) statuses.add(402).add(404).add(409).add(413)
  if (workflow !== null && !workflow.async) statuses.add(502).add(504)
  // 402: the plan's storage is used up; 408: the upload is too slow; 507: the store is full.
  if (files !== null) statuses.add(402).add(403).add(408).add(507)
  const payment = paymentError(files !== null, resourceLimit !== null || workflow !== null)
  return [...statuses].sort((left, right) => left - right).map((status) => status === 402 ? payment : status)
}

/** If both errors are possible, a 402 body has only the members that every error has. */
function paymentError (storesFiles: boolean, takesResource: boolean): 402 | ErrorName {
  if (!storesFiles) return 'resourceLimit'
  return takesResource ? 402 : 'planLimit'
}
