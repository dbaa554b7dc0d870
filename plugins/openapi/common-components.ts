/** The components of every document, besides those of its schemas: headers, the response of rate limits, a parameter, security schemes. */
import type { JsonSchema } from '../../lib/expressions/types.js'
import { errorSchema, rateLimitSchema } from '../../lib/http/error-schemas.js'
import { tenantIdPattern } from '../../lib/identity/tenant-ref.js'

const count = (description: string) => ({ description, schema: { type: 'integer' } })
const limits = {
  'X-RateLimit-Limit': count('The number of requests allowed per window. Every response of a limited route has this header, errors included.'),
  'X-RateLimit-Remaining': count('The number of requests left in the current window.'),
  'X-RateLimit-Reset': count('The end of the current window, in seconds since 1970.')
}
const headers = {
  ...limits,
  'Retry-After': count('The number of seconds until the current window ends.'),
  'X-Cache': {
    description: '`HIT`: the response was served from the cache. `MISS`: it was not.',
    schema: { type: 'string', enum: ['HIT', 'MISS'] }
  },
  Location: {
    description: 'The path of the created resource. A declared route sends it for a single record if the caller can see its key.',
    schema: { type: 'string' }
  }
}

/** Headers of responses of limited routes. */
export const limitHeaders = referencesTo(Object.keys(limits))
/** Headers of responses of cached routes. */
export const cacheHeaders = referencesTo(['X-Cache'])
/** Headers of 201 responses that name the created resource. */
export const locationHeaders = referencesTo(['Location'])
/** The response beyond the limit of a route. */
export const rateLimited = { $ref: '#/components/responses/RateLimited' }

/** The members of `components` behind these references, without schemas. */
export const sharedComponents = {
  headers,
  responses: {
    RateLimited: {
      description: 'The rate limit is exceeded.',
      headers: referencesTo([...Object.keys(limits), 'Retry-After']),
      content: { 'application/json': { schema: { $ref: '#/components/schemas/RateLimitError' } } }
    }
  }
}

/** The schemas of these references. */
export const sharedErrors = [errorSchema, rateLimitSchema]

export const tenantParameter = {
  in: 'header',
  name: 'X-Tenant-ID',
  required: false,
  description:
    'The id of the tenant. It must match the tenant of the token, if the token has one. A platform administrator can use any tenant.',
  schema: { type: 'string', pattern: tenantIdPattern }
}

/** @param partial whether a route accepts the partial token of a login */
export function securitySchemes (partial: boolean): JsonSchema {
  return {
    bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' },
    apiKey: {
      type: 'apiKey',
      in: 'header',
      name: 'x-api-key',
      description: 'An API key of a tenant or of the platform. Do not send it together with a token.'
    },
    ...(partial &&
      {
        partialToken: {
          type: 'http',
          scheme: 'bearer',
          description: 'The `partialToken` of a login, unless it is sent in the body. A full token is rejected.'
        }
      })
  }
}

function referencesTo (names: readonly string[]): Readonly<Record<string, { $ref: string }>> {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]))
}
