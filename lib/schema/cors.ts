/** Pages of other origins that may call the API. */
import { Type, type Static } from 'typebox'
import { Section, type Filled } from './annotations.js'

export const maxOrigins = 100
export const maxTenantOrigins = 20

const Origins = (maxItems: number, whose: string) =>
  Type.Union([
    Type.Literal('*'),
    Type.Array(Type.String({ minLength: 1, maxLength: 300 }), { maxItems, uniqueItems: true })
  ], {
    description:
      `The origins of pages that can call ${whose}: \`https://app.example.com\`, or \`https://*.example.com\` for all hosts with one more label. \`"*"\` allows any origin.`
  })

export const Cors = Section({
  origins: Origins(maxOrigins, 'the API. Tenants can add origins for their own calls; `[]` leaves this to the tenants'),
  credentials: Type.Optional(
    Type.Boolean({
      default: false,
      description:
        'Browsers can send cookies. The API does not read cookies, but an app around it can. This applies only to `origins` of this document, and not to `"*"`.'
    })
  ),
  maxAge: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 86_400,
      default: 600,
      unit: 's',
      description: 'The time for which a browser caches a preflight response.'
    })
  ),
  exposedHeaders: Type.Optional(
    Type.Array(Type.String({ pattern: "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$", expected: 'the name of a header' }), {
      maxItems: 50,
      uniqueItems: true,
      default: [],
      description:
        'The response headers that pages can read, in addition to `ETag`, `Idempotency-Replayed`, `Location`, `Retry-After`, `X-Cache`, `X-Request-ID` and `X-RateLimit-*`.'
    })
  )
}, { description: 'Calls from pages of other origins (CORS). Without this section, browsers block them.' })
export type Cors = Filled<Static<typeof Cors>, 'credentials' | 'maxAge' | 'exposedHeaders'>

export const TenantCors = Section({
  origins: Origins(maxTenantOrigins, "the API for this tenant, in addition to the platform's origins")
}, { description: 'Pages of other origins that can call the API for this tenant. The platform must have a section `cors`.' })
export type TenantCors = Static<typeof TenantCors>
