/** Groups of built-in endpoints, on or off, and their options. */
import { type Static, type TSchema, Type } from 'typebox'
import { ClosedObject, Optional } from './annotations.js'

export const defaultRetentionDays = 365
export const maxRetentionDays = 36_500

const auditOptions = {
  retentionDays: Optional.Integer(
    `The number of days for which the platform's entries are kept. The plan of a tenant sets the time for its entries. Default: ${defaultRetentionDays}.`,
    { minimum: 1, maximum: maxRetentionDays }
  )
}

export const maxMetricTenants = 1000
export const defaultMetricTenants = 100

const systemOptions = {
  metrics: Type.Optional(ClosedObject({
    perTenant: Optional.Boolean('Adds the tenant as a label to requests and their durations.', { default: false }),
    maxTenants: Optional.Integer(
      'The number of tenants with their own label: the first tenants, until they are deleted. Other tenants share the label `(other)`.',
      { minimum: 1, maximum: maxMetricTenants, default: defaultMetricTenants }
    )
  }, { description: 'Options of `GET /metrics`.' }))
}

const Group = <Properties extends Record<string, TSchema>>(endpoints: string, options: Properties) =>
  Type.Optional(Type.Union([
    Type.Literal(false),
    ClosedObject(options)
  ], { description: `${endpoints} \`false\` disables them. Default: enabled.` }))

export const Plugins = ClosedObject({
  health: Group('`GET /health`.', {}),
  login: Group('Users with passwords: the endpoints under `/auth`, available if `jwt` has a signing key.', {}),
  migration: Group('`/migration`.', {}),
  openapi: Group('`GET /doc` and `GET /ui`.', {
    title: Optional.String('The title of the OpenAPI document. Default: `name` of the document, or `API`.', { minLength: 1 }),
    version: Optional.String('The version of the API. Default: the version of tenantry.', { minLength: 1 }),
    description: Optional.String('The purpose of the API, in Markdown.'),
    ui: Optional.Boolean('Serve the pages under `/ui`. Default: true.')
  }),
  secrets: Group('`/tenant/secrets`.', {}),
  'api-keys': Group('`/tenant/api-keys`.', {}),
  'tenant-config': Group('`/tenant/config`, and the routes that tenants save with it.', {}),
  'tenant-rbac': Group('`/tenant/rbac`, and the roles that tenants define with it.', {}),
  admin: Group('`/admin/entities`.', {}),
  agent: Group(
    '`/agent/workflow` and `/agent/workflows` (asynchronous workflows also run without them), `/llm` and the rest of `/agent` if `agent` is set, and `/mcp` if `mcp` is set.',
    {}
  ),
  analytics: Group('`/analytics`, if `analytics.enabled` is true.', {}),
  audit: Group('`GET /audit`.', auditOptions),
  billing: Group(
    '`GET /billing/plans`, `GET /billing/usage` (if `usage` is also enabled), `/billing/subscription`, `POST /billing/upgrade`, and the webhooks of the payment providers.',
    {}
  ),
  files: Group('`/files`, unless `files.enabled` is false.', {}),
  integrations: Group('`POST /integrations/{type}/{action}`.', {}),
  mfa: Group('`/mfa` and `POST /auth/mfa/verify`, if `jwt` is set.', {}),
  publish: Group('`/publish`.', {}),
  rbac: Group('`/rbac` and the permissions of platform roles, if `rbac.enabled` is true.', {}),
  realtime: Group('`/realtime` and `GET /doc/realtime`, unless `realtime.enabled` is false.', {}),
  'resource-limits': Group('`/tenant/limits`, and the limits of users that tenants set with it.', {}),
  system: Group('`/system/info`, `/metrics`, `/cache` and `/queue`.', systemOptions),
  'tenant-billing': Group('`/billing/tenant`, if `secrets` is enabled.', {}),
  usage: Group('`/usage` and `GET /billing/usage` (if `billing` is also enabled), and the tracking of usage.', {}),
  users: Group('`/users` and `POST /auth/invite/accept`, if `login` is enabled.', {}),
  webhooks: Group('`/webhooks`, and outbound webhooks.', {})
}, { default: {}, description: 'Groups of built-in endpoints, by name.' })
export type Plugins = Static<typeof Plugins>
