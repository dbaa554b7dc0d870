/** Limits: the rate of callers' requests, and a route's use of a limited resource. */
import { type Static, Type } from 'typebox'
import { ClosedObject, type Filled, Optional } from './annotations.js'
import { RedisServer } from './redis.js'

const max = { minimum: 1, maximum: 1_000_000_000, description: 'The maximum number of requests per window.' }
const windowMs = { minimum: 1000, maximum: 86_400_000, unit: 'ms', description: 'The length of the window.' }
const message = Optional.String('The `message` of the error. Default: "Rate limit exceeded".', { minLength: 1 })
const statusCode = { minimum: 400, maximum: 599, description: 'The status of the error.' }
const skipSuccessfulRequests = { description: 'Do not count responses below 400.' }
const skipFailedRequests = { description: 'Do not count responses of 400 and above.' }

export const DefaultRateLimit = ClosedObject({
  max: Optional.Integer(
    'The maximum number of requests per window. Default: 100 for each address; tenants have only the limits of their plans.',
    { ...max }
  ),
  windowMs: Type.Optional(Type.Integer({ default: 60_000, ...windowMs })),
  message,
  statusCode: Type.Optional(Type.Integer({ default: 429, ...statusCode })),
  skipSuccessfulRequests: Type.Optional(Type.Boolean({ default: false, ...skipSuccessfulRequests })),
  skipFailedRequests: Type.Optional(Type.Boolean({ default: false, ...skipFailedRequests }))
}, {
  description:
    'The rule of all routes without their own rule. These routes share one count for each tenant, or for each address without a tenant. Default: 100 per minute for each address; tenants have only the limits of their plans.'
})
export type DefaultRateLimit = Filled<
  Static<typeof DefaultRateLimit>,
  'windowMs' | 'statusCode' | 'skipSuccessfulRequests' | 'skipFailedRequests'
>

const rest = {
  message,
  statusCode: Type.Optional(Type.Integer(statusCode)),
  skipSuccessfulRequests: Type.Optional(Type.Boolean(skipSuccessfulRequests)),
  skipFailedRequests: Type.Optional(Type.Boolean(skipFailedRequests))
}

const EndpointRateLimit = ClosedObject({
  max: Type.Optional(Type.Integer(max)),
  windowMs: Type.Optional(Type.Integer(windowMs)),
  ...rest
}, { description: 'The rule of one endpoint. Missing members are taken from `default`.' })

export const RouteRateLimit = ClosedObject({
  max: Type.Integer(max),
  windowMs: Type.Optional(Type.Integer({ default: 60_000, ...windowMs })),
  ...rest
}, { description: "The rate limit of the route, instead of the document's `rateLimit`." })
export type RouteRateLimit = Static<typeof RouteRateLimit>

export const RateLimit = ClosedObject({
  enabled: Type.Boolean({
    description: "If false, `default`, `perEndpoint` and the plans limit nothing. A route's own `rateLimit` still applies."
  }),
  default: Type.Optional(DefaultRateLimit),
  perEndpoint: Type.Optional(Type.Record(Type.String({ pattern: '^((GET|POST|PUT|PATCH|DELETE) )?/' }), EndpointRateLimit, {
    additionalProperties: false,
    expected: '`GET /path` or `/path`, the path as it is declared',
    description:
      'Rules by `GET /path` or `/path`, with the declared path. The name of a route with its own `rateLimit`, of a webhook, or of an endpoint without a limit is a fault.'
  })),
  redis: RedisServer(
    'The Redis in which instances share their counts. It requires the package ioredis. Default: the Redis of `cache` if `cache.provider` is `redis`; otherwise each instance counts separately.'
  )
}, {
  description:
    'Rate limits of callers. Without this section, tenants have the limits of their plans, and routes their own `rateLimit`. `{ "enabled": false }` also disables the limits of plans.'
})
export type RateLimit = WithDefaultRule<Static<typeof RateLimit>>

/** After the check, a rule for all routes has all its members. */
export type WithDefaultRule<Section> = Omit<Section, 'default'> & { default?: DefaultRateLimit }

/** The name of a resource or of a metric. */
export const limitedName = '^[A-Za-z0-9_.:-]{1,64}$'

const Name = (description: string) =>
  Type.String({
    pattern: limitedName,
    expected: '1 to 64 of A-Z a-z 0-9 _ . : -',
    description: `${description} 1 to 64 of \`A-Z a-z 0-9 _ . : -\`.`
  })

export const maxAmount = Number.MAX_SAFE_INTEGER

export const RouteResourceLimit = ClosedObject({
  resource: Name('The resource that the route uses.'),
  metric: Name('The counted metric of the resource.'),
  amount: Type.Optional(Type.Union([
    Type.Integer({ minimum: 1, maximum: maxAmount }),
    Type.String({
      text: 'request',
      pattern: '^\\{\\{[^{}]+\\}\\}$',
      maxLength: 500,
      expected: 'a whole number, or one template such as {{body.quantity}}'
    })
  ], { description: 'The amount that a request uses: a whole number of at least 1, or a template with such a value. Default: 1.' }))
}, {
  description:
    "The amount of a limited resource that a request uses. It requires `requireAuth`. The request fails with 402 if the caller's limit would be exceeded. The amount is returned if the response is an error."
})
