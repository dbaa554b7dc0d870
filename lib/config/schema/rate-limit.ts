/** How often callers may call (SPEC "rateLimit", DESIGN 7). */
import { Type, type Static } from 'typebox'
import { Planned, Section, type Filled } from './annotations.js'

const max = { minimum: 1, maximum: 1_000_000_000, description: 'Requests a window.' }
const windowMs = { minimum: 1000, maximum: 86_400_000, unit: 'ms', description: 'The window.' }
const message = Type.Optional(Type.String({ minLength: 1, description: 'The `message` of the refusal. Default: "Rate limit exceeded".' }))
const statusCode = { minimum: 400, maximum: 599, description: 'The status of the refusal.' }
const skipSuccessfulRequests = { description: 'Answers below 400 do not count.' }
const skipFailedRequests = { description: 'Answers of 400 and above do not count.' }

export const DefaultRateLimit = Section({
  max: Type.Optional(Type.Integer({ default: 100, ...max })),
  windowMs: Type.Optional(Type.Integer({ default: 60_000, ...windowMs })),
  message,
  statusCode: Type.Optional(Type.Integer({ default: 429, ...statusCode })),
  skipSuccessfulRequests: Type.Optional(Type.Boolean({ default: false, ...skipSuccessfulRequests })),
  skipFailedRequests: Type.Optional(Type.Boolean({ default: false, ...skipFailedRequests }))
}, { default: {}, description: 'The rule of every route that has no other; its requests share one count for each tenant, or each address where a token names no tenant.' })
export type DefaultRateLimit = Filled<Static<typeof DefaultRateLimit>, 'max' | 'windowMs' | 'statusCode' | 'skipSuccessfulRequests' | 'skipFailedRequests'>

export const EndpointRateLimit = Section({
  max: Type.Optional(Type.Integer(max)),
  windowMs: Type.Optional(Type.Integer(windowMs)),
  message,
  statusCode: Type.Optional(Type.Integer(statusCode)),
  skipSuccessfulRequests: Type.Optional(Type.Boolean(skipSuccessfulRequests)),
  skipFailedRequests: Type.Optional(Type.Boolean(skipFailedRequests))
}, { description: 'The rule of one endpoint; what it leaves out is taken from `default`.' })
export type EndpointRateLimit = Static<typeof EndpointRateLimit>

export const RateLimit = Section({
  enabled: Type.Boolean({ description: 'false: `default` and `perEndpoint` count nothing; a route\'s own `rateLimit` still does.' }),
  default: Type.Optional(DefaultRateLimit),
  perEndpoint: Type.Optional(Type.Record(Type.String({ pattern: '^((GET|POST|PUT|PATCH|DELETE) )?/' }), EndpointRateLimit, {
    additionalProperties: false,
    expected: '`GET /path` or `/path`, the path as it is declared',
    description: 'Rules by `GET /path` or `/path`, the path as it is declared. A route\'s own rule goes before them.'
  })),
  redis: Planned(Section({ url: Type.String({ description: 'The address, `redis://host:port`.' }) }, { description: 'Where instances share their counts.' }), 'counts that instances share')
}, { default: { enabled: false }, description: 'How often callers may call. Without it only routes with their own `rateLimit` are limited.' })
export type RateLimit = WithDefaultRule<Static<typeof RateLimit>>

/** After the check the rule for all routes is there, and whole. */
export type WithDefaultRule<Section> = Omit<Section, 'default'> & { default: DefaultRateLimit }
