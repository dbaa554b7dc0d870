/** The server: its port, its limits and its stop; and pages of other origins that may call it. */
import { type Static, Type } from 'typebox'
import { ClosedObject, type Filled, Optional } from './annotations.js'

export const Server = ClosedObject({
  bodyLimit: Optional.Integer(
    'The maximum size of a request body. A larger body is rejected with 413.',
    { minimum: 1, maximum: 1_073_741_824, default: 1_048_576, unit: 'bytes' }
  ),
  maxUnsentBytes: Optional.Integer(
    'The maximum number of unread bytes of large responses in memory, for each tenant, and for each address of callers without a tenant. A file counts for 131,072 bytes while it is sent. One connection can use a quarter of it, all callers together four times as much. Beyond it, further large responses fail with 429.',
    { minimum: 1_048_576, maximum: 1_073_741_824, default: 67_108_864, unit: 'bytes' }
  ),
  stopDelayMs: Optional.Integer(
    'The time for which the server keeps serving after SIGTERM, while `/health` responds with 503 and each response closes its connection. Set it longer than a proxy needs to notice, or to 0 if the proxy sends rejected requests to another server.',
    { minimum: 0, maximum: 300_000, default: 0, unit: 'ms' }
  ),
  trustProxy: Type.Optional(Type.Union([
    Type.Boolean(),
    Type.Integer({ minimum: 1, maximum: 100 }),
    Type.String({ minLength: 1 }),
    Type.Array(Type.String({ minLength: 1 }), { minItems: 1 })
  ], {
    default: false,
    description:
      'The proxies whose `X-Forwarded-For` is trusted: none (false), all (true; only if callers cannot reach the server directly), a number of proxies, or their addresses or CIDR ranges.'
  })),
  writeTimeoutMs: Optional.Integer(
    'The time without progress after which a connection with an unread response is closed.',
    { minimum: 100, maximum: 600_000, default: 30_000, unit: 'ms' }
  )
}, { default: {}, description: 'The HTTP server.' })
export type Server = Required<Static<typeof Server>>

const maxOrigins = 100
export const maxTenantOrigins = 20

const Origins = (maxItems: number, reached: string) =>
  Type.Union([
    Type.Literal('*'),
    Type.Array(Type.String({ minLength: 1, maxLength: 300 }), { maxItems, uniqueItems: true })
  ], {
    description:
      `The origins of pages that can call ${reached}: \`https://app.example.com\`, or \`https://*.example.com\` for all hosts with one more label. \`"*"\` allows any origin.`
  })

export const Cors = ClosedObject({
  origins: Origins(maxOrigins, 'the API. Tenants can add origins for their own calls; `[]` leaves this to the tenants'),
  credentials: Optional.Boolean(
    'Browsers can send cookies. The API does not read cookies, but an app around it can. This applies only to `origins` of this document, and not to `"*"`.',
    { default: false }
  ),
  maxAge: Optional.Integer(
    'The time for which a browser caches a preflight response.',
    { minimum: 0, maximum: 86_400, default: 600, unit: 's' }
  ),
  exposedHeaders: Optional.Array(
    'The response headers that pages can read, in addition to `ETag`, `Idempotency-Replayed`, `Location`, `Retry-After`, `X-Cache`, `X-Request-ID` and `X-RateLimit-*`.',
    Type.String({ pattern: "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$", expected: 'the name of a header' }),
    { maxItems: 50, uniqueItems: true, default: [] }
  )
}, { description: 'Calls from pages of other origins (CORS). Without this section, browsers block them.' })
export type Cors = Filled<Static<typeof Cors>, 'credentials' | 'maxAge' | 'exposedHeaders'>

export const TenantCors = ClosedObject({
  origins: Origins(maxTenantOrigins, "the API for this tenant, in addition to the platform's origins")
}, { description: 'Pages of other origins that can call the API for this tenant. The platform must have a section `cors`.' })
export type TenantCors = Static<typeof TenantCors>
