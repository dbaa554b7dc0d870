/** What `/doc` says of a compiled route: request, answers and errors as JSON Schemas, derived and never written twice. */
import type { Route } from '../config/schema/route.js'
import type { Answer, CompiledQuery, CompiledRequest, CompiledResponse, JsonSchema } from './types.js'

/** The members of a Fastify route schema that the OpenAPI document is made from. */
export interface RouteDocumentation {
  readonly summary: string
  readonly description?: string
  readonly tags?: readonly string[]
  readonly params?: JsonSchema
  readonly querystring?: JsonSchema
  readonly body?: JsonSchema
  /** Schemas of the successful answers by status. */
  readonly response: Readonly<Record<number, JsonSchema>>
  /** The statuses of the errors that the route can answer. */
  readonly errors: readonly number[]
  /** Empty where no token is needed. */
  readonly security: readonly JsonSchema[]
}

/** The parts of a compiled route that its documentation is derived from. */
export interface DocumentedParts {
  readonly id: string
  readonly requireAuth: boolean
  readonly permissions: readonly string[]
  readonly request: CompiledRequest
  readonly queries: readonly CompiledQuery[]
  readonly status: 200 | 201
  readonly response: CompiledResponse | null
}

export function documentRoute (route: Route, parts: DocumentedParts): RouteDocumentation {
  const { params, query, body } = parts.request
  return Object.freeze({
    summary: route.description ?? parts.id,
    ...(route.description !== undefined && { description: route.description }),
    ...(route.tags !== undefined && { tags: route.tags }),
    ...(params !== undefined && { params }),
    ...(query !== undefined && { querystring: query }),
    ...(body !== undefined && { body }),
    response: { [parts.status]: { description: 'Success', ...answerSchema(parts) } },
    errors: errorStatuses(parts),
    security: parts.requireAuth ? [{ bearer: [] }] : []
  })
}

function answerSchema ({ queries, response }: DocumentedParts): JsonSchema {
  if (response?.kind === 'schema') return response.schema
  if (response?.kind === 'mapping') return {}
  const [first] = queries
  if (first !== undefined && queries.length === 1) return schemaOfAnswer(first.answer, first.record)
  return objectOf(Object.fromEntries(queries.map((query) => [query.key, schemaOfAnswer(query.answer, query.record)])))
}

function schemaOfAnswer (answer: Answer, record: JsonSchema): JsonSchema {
  const data = { type: 'array', items: record }
  switch (answer) {
    case 'record': return record
    case 'records': return objectOf({ data })
    case 'page': return objectOf({ data, pagination: paginationSchema })
    case 'deletion': return { ...objectOf({ success: { type: 'boolean' }, softDeleted: { type: 'boolean' } }), required: ['success'] }
  }
}

const paginationSchema = objectOf({ limit: { type: 'integer' }, offset: { type: 'integer' }, total: { type: 'integer' } })

function objectOf (properties: Readonly<Record<string, JsonSchema>>): JsonSchema {
  return { type: 'object', properties, required: Object.keys(properties) }
}

function errorStatuses ({ requireAuth, permissions, queries }: DocumentedParts): number[] {
  const statuses = new Set([400, 401, 429, 500])
  if (requireAuth || permissions.length > 0) statuses.add(403)
  if (queries.length > 0) statuses.add(503)
  if (queries.some((query) => query.answer !== 'page' && query.answer !== 'records')) statuses.add(404)
  if (queries.some((query) => query.write)) statuses.add(409)
  return [...statuses].sort((left, right) => left - right)
}
