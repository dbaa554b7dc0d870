/** Tenants (DESIGN 3, 4 and 5). */
import { Type, type Static } from 'typebox'
import { Planned, Section, type Filled } from './annotations.js'

const saved = 'documents that tenants save'

export const Tenancy = Section({
  trustHeader: Type.Optional(Type.Boolean({ default: false, description: 'A gateway in front sets `X-Tenant-ID` itself: it decides where the token names no tenant. Never for a server that callers reach directly.' })),
  dashboardPermission: Type.Optional(Type.String({ minLength: 1, description: 'The permission that `X-Tenant-ID` needs to bypass `excludeFields`. Default: none.' })),
  provisioning: Planned(Type.Enum(['auto', 'explicit'], { description: 'Whether a tenant that a token names for the first time is made or refused. Default: `auto`.' }), 'a register of tenants; until then every id that a verified token names is one'),
  sharedTables: Planned(Type.Array(Type.String({ minLength: 1 }), { uniqueItems: true, description: "Tables without `tenant_id` that a tenant's own document may read. Default: none." }), saved),
  env: Planned(Type.Array(Type.String(), { description: "The settings that `{{env.NAME}}` in a tenant's document may read. Default: none." }), saved),
  overridableEnv: Planned(Type.Array(Type.String(), { description: "The settings that a tenant's secret of the same name replaces. Default: none." }), saved)
}, { default: {}, description: 'Tenants.' })
export type Tenancy = Omit<Filled<Static<typeof Tenancy>, 'trustHeader'>, 'sharedTables'> & { sharedTables: readonly string[] }
