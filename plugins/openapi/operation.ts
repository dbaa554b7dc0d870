/** One Operation Object (OpenAPI 3.1) from the documentation of a route. */
import { STATUS_CODES } from 'node:http'
import type { JsonSchema } from '../../lib/expressions/types.js'
import { errorResponses } from '../../lib/http/error-schemas.js'
import { idempotencyHeader } from '../../lib/http/idempotency-key.js'
import { schemaName } from '../../lib/validation/named-schema.js'
import { cacheHeaders, limitHeaders, locationHeaders, rateLimited } from './common-components.js'
import type { Components, Field } from './components.js'
import type { Documentation, DocumentedRoute } from './documentation.js'
import { parametersOf, toTemplate } from './path.js'
import { isSchema } from './schema.js'

/** The settings of operations. */
export interface OperationContext {
  readonly components: Components
  /** Whether callers may name a tenant by X-Tenant-ID. */
  readonly tenancy: boolean
  /** Whether routes may accept the header Idempotency-Key. */
  readonly idempotency: boolean
}

const defaultMedia = ['application/json']
/** A parameter of a path without a schema. */
const textField: Field = { required: true, description: undefined, isObject: false, write: () => ({ type: 'string' }) }

/** Without `operationId`, which only the whole document can make unique. `template` may have other names of parameters than the route. */
export function toOperation (
  route: DocumentedRoute,
  documentation: Documentation,
  template: string,
  context: OperationContext
): JsonSchema {
  const { summary, tags, deprecated, body, bodyOptional, consumes = defaultMedia } = documentation
  const description = [documentation.description, callersOf(route)].filter((text) => text !== undefined).join('\n\n')
  const parameters = parameterObjects(route, documentation, template, context)
  const security = documentation.security ?? impliedSecurity(route)
  return {
    ...(summary !== undefined && { summary }),
    ...(description !== '' && { description }),
    ...(tags !== undefined && tags.length > 0 && { tags }),
    ...(deprecated === true && { deprecated }),
    ...(parameters.length > 0 && { parameters }),
    ...(body !== undefined && body !== null && {
      requestBody: { required: bodyOptional !== true, content: contentOf(consumes, body, context.components) }
    }),
    responses: responses(route, documentation, context),
    ...(security !== undefined && { security })
  }
}

function parameterObjects (
  route: DocumentedRoute,
  documentation: Documentation,
  template: string,
  { components, tenancy, idempotency }: OperationContext
): unknown[] {
  const { params, querystring, headers } = documentation
  const pathFields = components.fieldsOf(params)
  const headerFields = components.fieldsOf(headers)
  const shown = parametersOf(template)
  const path = parametersOf(toTemplate(route.url)).map((name, index) => {
    const field = pathFields.get(name === 'wildcard' ? '*' : name) ?? textField
    return parameterObject('path', shown[index] ?? name, { ...field, required: true })
  })
  const query = Array.from(components.fieldsOf(querystring), ([name, field]) => parameterObject('query', name, field))
  const header = Array.from(headerFields, ([name, field]) => parameterObject('header', name, field))
  const { access } = route.config ?? {}
  const declares = (header: string) => headerFields.has(header)
  const shared = [
    ...tenancy && access !== undefined && access !== 'public' ? ['TenantId'] : [],
    ...idempotency && takesKey(route, documentation) && !declares(idempotencyHeader) ? ['IdempotencyKey'] : [],
    ...documentation.supportsIfMatch === true && !declares('if-match') ? ['IfMatch'] : []
  ].map((name) => ({ $ref: `#/components/parameters/${name}` }))
  return [...path, ...query, ...header, ...shared]
}

function takesKey ({ config }: DocumentedRoute, { takesIdempotencyKey }: Documentation): boolean {
  return takesIdempotencyKey === true || config?.idempotency !== undefined
}

function parameterObject (place: 'path' | 'query' | 'header', name: string, { description, required, isObject, write }: Field): JsonSchema {
  return {
    in: place,
    name,
    ...(description !== undefined && { description }),
    required,
    // `filter[title]=...`; without this style its members would be separate parameters.
    ...(place === 'query' && isObject && { style: 'deepObject', explode: true }),
    schema: write()
  }
}

function contentOf (media: readonly string[], schema: unknown, components: Components): JsonSchema {
  // Fastify's form for several media types.
  const members: [string, unknown][] = isSchema(schema) && isSchema(schema['content'])
    ? Object.entries(schema['content']).map(([type, member]) => [type, isSchema(member) ? member['schema'] : {}])
    : media.map((type) => [type, schema])
  return Object.fromEntries(members.map(([type, member]) => [type, { schema: components.writeWhole(member) }]))
}

function responses (
  route: DocumentedRoute,
  documentation: Documentation,
  { components, tenancy, idempotency }: OperationContext
): JsonSchema {
  const { response, errors = [], produces = defaultMedia } = documentation
  const { limitStatuses = [] } = route.config ?? {}
  const described: Record<string, JsonSchema> = {}
  const describe = (status: string, schema: unknown, media: readonly string[]) => {
    const { description = STATUS_CODES[status] ?? 'Response', ...rest } = isSchema(schema) ? schema : {}
    const empty = rest['type'] === 'null'
    // The copy without a description is not a named schema.
    const written = isSchema(schema) && schemaName(schema) !== undefined ? schema : rest
    described[status] = { description, ...(!empty && { content: contentOf(media, written, components) }) }
  }
  const ofKey = idempotency && takesKey(route, documentation) ? [409] : []
  const refusals = errorResponses(...impliedErrors(route, tenancy), ...ofKey, ...errors)
  for (const [status, schema] of Object.entries(refusals)) describe(status, schema, defaultMedia)
  for (const [key, schema] of Object.entries(isSchema(response) ? response : {})) {
    describe(/^[1-5]xx$/i.test(key) ? key.toUpperCase() : key, schema, produces)
  }
  // Another status that is already described keeps the general error body.
  for (const status of limitStatuses) if (status === 429 || described[status] === undefined) described[status] = rateLimited
  if (!Object.keys(described).some(isSuccess)) described[200] = { description: 'Success' }

  const common = { ...(limitStatuses.length > 0 && limitHeaders), ...(documentation.cached === true && cacheHeaders) }
  const hasLocation = route.config?.location === true || documentation.location === true
  for (const [status, documented] of Object.entries(described)) {
    const headers = hasLocation && status === '201' ? { ...common, ...locationHeaders } : common
    if (isSuccess(status) && Object.keys(headers).length > 0) described[status] = { ...documented, headers }
  }
  return described
}

function isSuccess (status: string): boolean {
  return /^([123]|default)/.test(status)
}

/** The statuses of identity, tenant, rate limit and validation, on routes that they act on. */
function impliedErrors ({ config, methods }: DocumentedRoute, tenancy: boolean): number[] {
  const { access, rateLimitRule, addressLimit } = config ?? {}
  if (access === undefined) return []
  return [
    // The URL is malformed, or has an unknown parameter.
    400,
    // Bodies of other methods are read, also where none is expected.
    ...methods.every((method) => method === 'GET' || method === 'HEAD') ? [] : [413, 415],
    ...access === 'public' ? [] : [401, 403],
    // The tenant is unknown.
    ...tenancy && access !== 'public' ? [404] : [],
    ...rateLimitRule === false && addressLimit === undefined ? [] : [429],
    // The URL and the headers are too large.
    431,
    500
  ]
}

/** The accepted callers, where `security` cannot express them. */
function callersOf ({ config }: DocumentedRoute): string | undefined {
  const { access, permission, permissions = [] } = config ?? {}
  const texts: string[] = []
  if (access === 'platform-admin') texts.push('Requires a platform administrator.')
  if (access === 'tenant-admin') {
    texts.push(
      permission === undefined
        ? 'Requires an administrator of the tenant.'
        : `Requires an administrator of the tenant, or the permission \`${permission}\`.`
    )
  }
  if (permissions.length > 0) texts.push(`Requires ${permissions.map((name) => `\`${name}\``).join(' and ')}.`)
  return texts.length === 0 ? undefined : texts.join(' ')
}

const credentials: readonly JsonSchema[] = [{ bearer: [] }, { apiKey: [] }]

/** undefined for routes without `access`. */
function impliedSecurity ({ config }: DocumentedRoute): readonly JsonSchema[] | undefined {
  switch (config?.access) {
    case undefined:
      return undefined
    case 'public':
      return []
    case 'open':
      return [{}, ...credentials]
    // The partial token may also be in the body.
    case 'partial':
      return [{ partialToken: [] }, {}]
    default:
      return credentials
  }
}
