/** What the operations of a document share by reference: headers of answers, and the refusal of rate limits. */

const count = (description: string) => ({ description, schema: { type: 'integer' } })
const limits = {
  'X-RateLimit-Limit': count('Requests a window. It is on every answer of a route that is limited, errors included.'),
  'X-RateLimit-Remaining': count('Requests that are left in the window.'),
  'X-RateLimit-Reset': count('When the window ends, in seconds since 1970.')
}
const headers = {
  ...limits,
  'Retry-After': count('Seconds until the window ends.'),
  'X-Cache': { description: 'Whether the answer was kept (`HIT`) or made (`MISS`).', schema: { type: 'string', enum: ['HIT', 'MISS'] } }
}

/** On answers of routes that are limited. */
export const limitHeaders = referencesTo(Object.keys(limits))
/** On answers of routes that are cached. */
export const cacheHeaders = referencesTo(['X-Cache'])
/** In place of a response. */
export const rateLimited = { $ref: '#/components/responses/RateLimited' }

/** The members of `components` that these refer to. */
export const sharedComponents = {
  headers,
  responses: {
    RateLimited: {
      description: 'A limit of requests refuses it',
      headers: referencesTo([...Object.keys(limits), 'Retry-After']),
      content: { 'application/json': { schema: { $ref: '#/components/schemas/RateLimitError' } } }
    }
  }
}

function referencesTo (names: readonly string[]): Readonly<Record<string, { $ref: string }>> {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]))
}
