/** Tenants, and the addresses that they may call. */
import { type Static, Type } from 'typebox'
import { type Filled, Section } from './annotations.js'

const settingName = {
  pattern: '^[A-Za-z_][A-Za-z0-9_]{0,127}$',
  expected: 'the name of a setting: 1 to 128 letters, digits and underscores'
}

const SettingNames = (description: string) =>
  Type.Optional(Type.Array(Type.String(settingName), { uniqueItems: true, default: [], description }))

export const Tenancy = Section({
  provisioning: Type.Optional(
    Type.Enum(['auto', 'explicit'], {
      default: 'auto',
      description:
        'The handling of a token with an unknown tenant: the tenant is created with the plan `free`, or the request fails with 404.'
    })
  ),
  trustHeader: Type.Optional(
    Type.Boolean({
      default: false,
      description:
        'A gateway sets `X-Tenant-ID`, which is used if the token has no tenant. Never set this if callers can reach the server directly.'
    })
  ),
  dashboardPermission: Type.Optional(
    Type.String({ minLength: 1, description: 'The permission required for `X-Tenant-ID` to bypass `excludeFields`. Default: none.' })
  ),
  sharedTables: Type.Optional(
    Type.Array(Type.String({ minLength: 1 }), {
      uniqueItems: true,
      default: [],
      description: "Tables without `tenant_id` that a tenant's own document can read but not write."
    })
  ),
  env: SettingNames("The settings that `{{env.NAME}}` in a tenant's document can read."),
  overridableEnv: SettingNames(
    "The settings that can be replaced by a tenant's secret with the same name, when they are read for a request of that tenant."
  ),
  maxLoadedTenants: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 1_000_000,
      default: 1000,
      description:
        'The number of tenants whose own routes this process keeps in memory, a quarter of a megabyte each (about twenty routes). A larger document counts as several. The least recently used routes are unloaded first, and loaded again when called.'
    })
  )
}, { default: {}, description: 'Settings of tenants.' })
export type Tenancy = Filled<
  Static<typeof Tenancy>,
  'provisioning' | 'trustHeader' | 'sharedTables' | 'env' | 'overridableEnv' | 'maxLoadedTenants'
>

export const Egress = Section({
  allow: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 300, expected: 'a host, an address or a CIDR range, each with an optional port' }), {
      maxItems: 1000,
      uniqueItems: true,
      default: [],
      description:
        'Private hosts, addresses and CIDR ranges, each with an optional port, that calls of tenants can reach: `hooks.internal:8080`, `10.0.0.0/8`, `[fd00::1]:443`. A host can resolve to any address.'
    })
  )
}, { default: {}, description: 'The addresses that calls of tenants can reach: public addresses, and the addresses listed here.' })
export type Egress = Filled<Static<typeof Egress>, 'allow'>
