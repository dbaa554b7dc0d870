/** Tenants, and the addresses that they may call. */
import { type Static, Type } from 'typebox'
import { ClosedObject, type Filled, Optional } from './annotations.js'

const settingName = {
  pattern: '^[A-Za-z_][A-Za-z0-9_]{0,127}$',
  expected: 'the name of a setting: 1 to 128 letters, digits and underscores'
}

const SettingNames = (description: string) =>
  Optional.Array(description, Type.String(settingName), { uniqueItems: true, default: [] })

export const Tenancy = ClosedObject({
  provisioning: Optional.Enum(
    'The handling of a token with an unknown tenant: the tenant is created with the plan `free`, or the request fails with 404.',
    ['auto', 'explicit'],
    { default: 'auto' }
  ),
  trustHeader: Optional.Boolean(
    'A gateway sets `X-Tenant-ID`, which is used if the token has no tenant. Never set this if callers can reach the server directly.',
    { default: false }
  ),
  dashboardPermission: Optional.String(
    'The permission required for `X-Tenant-ID` to bypass `excludeFields`. Default: none.',
    { minLength: 1 }
  ),
  sharedTables: Optional.Array(
    "Tables without `tenant_id` that a tenant's own document can read but not write.",
    Type.String({ minLength: 1 }),
    { uniqueItems: true, default: [] }
  ),
  env: SettingNames("The settings that `{{env.NAME}}` in a tenant's document can read."),
  overridableEnv: SettingNames(
    "The settings that can be replaced by a tenant's secret with the same name, when they are read for a request of that tenant."
  ),
  maxLoadedTenants: Optional.Integer(
    'The number of tenants whose own routes this process keeps in memory, a quarter of a megabyte each (about twenty routes). A larger document counts as several. The least recently used routes are unloaded first, and loaded again when called.',
    { minimum: 1, maximum: 1_000_000, default: 1000 }
  )
}, { default: {}, description: 'Settings of tenants.' })
export type Tenancy = Filled<
  Static<typeof Tenancy>,
  'provisioning' | 'trustHeader' | 'sharedTables' | 'env' | 'overridableEnv' | 'maxLoadedTenants'
>

export const Egress = ClosedObject({
  allow: Optional.Array(
    'Private hosts, addresses and CIDR ranges, each with an optional port, that calls of tenants can reach: `hooks.internal:8080`, `10.0.0.0/8`, `[fd00::1]:443`. A host can resolve to any address.',
    Type.String({ minLength: 1, maxLength: 300, expected: 'a host, an address or a CIDR range, each with an optional port' }),
    { maxItems: 1000, uniqueItems: true, default: [] }
  )
}, { default: {}, description: 'The addresses that calls of tenants can reach: public addresses, and the addresses listed here.' })
export type Egress = Filled<Static<typeof Egress>, 'allow'>
