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
      `Origins of pages that may call ${whose}: \`https://app.example.com\`, or \`https://*.example.com\` for every host with one more label. \`"*"\` is any origin.`
  })

export const Cors = Section({
  origins: Origins(maxOrigins, 'the API. Tenants may list further ones for their own calls; `[]` leaves it to them'),
  credentials: Type.Optional(
    Type.Boolean({
      default: false,
      description:
        'Browsers may send cookies. The API itself reads none; an app around it may. It applies to `origins` of this document only, and not to `"*"`.'
    })
  ),
  maxAge: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 86_400,
      default: 600,
      unit: 's',
      description: 'The time that a browser caches a preflight response.'
    })
  ),
  exposedHeaders: Type.Optional(
    Type.Array(Type.String({ pattern: "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$", expected: 'the name of a header' }), {
      maxItems: 50,
      uniqueItems: true,
      default: [],
      description:
        'Headers of responses that pages may read besides `ETag`, `Idempotency-Replayed`, `Location`, `Retry-After`, `X-Cache`, `X-Request-ID` and `X-RateLimit-*`.'
    })
  )
}, { description: 'Calls from pages of other origins (CORS). Without this section, browsers refuse them.' })
export type Cors = Filled<Static<typeof Cors>, 'credentials' | 'maxAge' | 'exposedHeaders'>

export const TenantCors = Section({
  origins: Origins(maxTenantOrigins, "the API for this tenant, besides the platform's")
}, { description: 'Pages of other origins that may call the API for this tenant. The platform must have a section `cors`.' })
export type TenantCors = Static<typeof TenantCors>
