/** The schema of the documents that tenants save. */
import { type Static, type TSchema, Type } from 'typebox'
import { ClosedObject, MapOf, Optional, type SchemaNode } from '../schema/annotations.js'
import { Credentials, CustomIntegrations, Integrations } from '../schema/integrations.js'
import { RateLimit, type WithDefaultRule } from '../schema/limits.js'
import { Route } from '../schema/route.js'
import { TenantCors } from '../schema/server.js'
import { Webhooks } from '../schema/webhook.js'
import { Workflows } from '../schema/workflow.js'

export const maxRoutes = 500
export const maxWorkflows = 100
const maxIntegrations = 10 // per route
const maxCustomIntegrations = 20

/** A member of the platform's schema with lower limits, because tenants are not trusted. */
function Bounded<Schema extends TSchema> (schema: Schema, bounds: Pick<SchemaNode, 'maxItems' | 'maxLength' | 'items'>) {
  return Type.Unsafe<Static<Schema>>({ ...schema, ...bounds })
}

const Names = (schema: TSchema, maxItems: number) =>
  Type.Optional(Bounded(Type.Array(Type.String(), { ...schema }), { maxItems, items: Type.String({ maxLength: 128 }) }))

/** The schema of a tenant's route: the platform's, with limits. The compiler limits the cost of its compilation. */
export const TenantRoute = ClosedObject({
  ...Route.properties,
  path: Bounded(Route.properties.path, { maxLength: 500 }),
  description: Type.Optional(Bounded(Route.properties.description, { maxLength: 10_000 })),
  tags: Names(Route.properties.tags, 50),
  authProvider: Optional.String(
    'The issuer of accepted tokens: `jwt` for the server itself, or the name of one of its identity providers. Default: `jwt`.',
    { maxLength: 32 }
  ),
  requiredPermissions: Names(Route.properties.requiredPermissions, 100),
  queries: Type.Optional(Bounded(Route.properties.queries, { maxItems: 20 })),
  firebaseQueries: Type.Optional(Bounded(Route.properties.firebaseQueries, { maxItems: 20 })),
  integrations: Type.Optional(Bounded(Integrations, { maxItems: maxIntegrations })),
  excludeFields: Names(Route.properties.excludeFields, 200)
}, { description: 'A route.' })

export const TenantRateLimit = ClosedObject({
  enabled: RateLimit.properties.enabled,
  default: RateLimit.properties.default,
  perEndpoint: RateLimit.properties.perEndpoint
}, { description: "Rate limits of the tenant's routes, in addition to the server's own limit. Default: the platform's." })

export type TenantRateLimit = WithDefaultRule<Static<typeof TenantRateLimit>>

export const TenantCache = ClosedObject({
  enabled: Type.Boolean({ description: 'If false, no response is cached, even for routes with `cache`.' }),
  provider: Optional.Enum(
    'Not used: the platform chooses the store of cached responses. Documents of the platform require it.',
    ['memory', 'redis', 'lmdb']
  ),
  ttl: Optional.Number(
    "The default time for which a response is cached. Default: the platform's.",
    { exclusiveMinimum: 0, maximum: 31_536_000, unit: 's' }
  ),
  maxSize: Optional.Integer('Not used: the platform limits the size of its store.', { minimum: 1 }),
  maxMemoryMB: Optional.Number('Not used, like `maxSize`.', { exclusiveMinimum: 0, unit: 'MB' })
}, { description: "The cache of responses, for routes with `cache`. Default: the platform's." })

export const Settings = MapOf(Type.Unknown({ text: 'literal' }), {
  default: {},
  description: 'The value of `{{tenant.config}}`: any JSON of at most 64 KB, 16 levels deep. Templates in it are not evaluated.'
})

export const TenantDocument = ClosedObject({
  $schema: Optional.String('The URL of a schema for editors. It is not used by the server.', { text: 'literal', maxLength: 2000 }),
  routes: Optional.Array('The routes.', TenantRoute, { maxItems: maxRoutes, default: [] }),
  credentials: Type.Optional(Credentials),
  rateLimit: Type.Optional(TenantRateLimit),
  cors: Type.Optional(TenantCors),
  cache: Type.Optional(TenantCache),
  settings: Type.Optional(Settings),
  workflows: Type.Optional(Bounded(Workflows, { maxItems: maxWorkflows })),
  webhooks: Type.Optional(Bounded(Webhooks, { maxItems: 20 })),
  customIntegrations: Type.Optional(Bounded(CustomIntegrations, { maxItems: maxCustomIntegrations }))
}, { description: "A tenant's document: its own routes and their settings." })
