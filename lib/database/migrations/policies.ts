/**
 * Row-level security of tenant-scoped tables. The setting `app.tenant_id` decides which rows a session sees and writes: those of one
 * tenant, those of all (`*`), or the platform's own, whose tenant is empty (`/platform`). No tenant's id has such characters. A session
 * without the setting gets an error, because an empty result would look like lost data. PostgreSQL itself raises the error for a setting
 * that was never made. A setting that ended with its transaction is empty afterwards, and the policies raise an error for it. The policies
 * bind the owner of the table too (FORCE). Permissive policies of one table add up, so the policy that separates tenants is restrictive.
 * PostgreSQL shows no rows without a permissive policy, so one is added if the table has no other.
 */
import { everyTenant, platformRows, tenantSetting } from '../connections.js'
import { identifier, literal } from '../sql.js'

export const isolationPolicy = 'tenantry_isolation'
export const accessPolicy = 'tenantry_access'

interface Policy {
  readonly name: string
  readonly permissive: boolean
  /** A policy of an earlier version, with a rule that shows no rows to a session without the setting. */
  readonly outdated: boolean
}

export interface Security {
  readonly enabled: boolean
  readonly forced: boolean
  readonly policies: readonly Policy[]
}

export const noSecurity: Security = { enabled: false, forced: false, policies: [] }

/** The missing statements of a table; empty if it is secured. `table` is quoted; `type` is that of `tenant_id`. */
export function policyStatements (table: string, type: string, security: Security): string[] {
  const { enabled, forced, policies } = security
  return [
    ...policies.some(({ name }) => name === isolationPolicy)
      ? []
      : [`create policy ${isolationPolicy} on ${table} as restrictive ${isolationRule(table, type)}`],
    ...policies.some(({ permissive }) => permissive) ? [] : [`create policy ${accessPolicy} on ${table} as permissive ${accessRule}`],
    ...renewStatements(table, type, security),
    ...enabled ? [] : [`alter table ${table} enable row level security`],
    ...forced ? [] : [`alter table ${table} force row level security`]
  ]
}

/** The statements that replace the rules of an earlier version. They read no rows. */
export function renewStatements (table: string, type: string, { policies }: Security): string[] {
  const outdated = new Set(policies.filter((policy) => policy.outdated).map(({ name }) => name))
  return [
    ...outdated.has(isolationPolicy) ? [`alter policy ${isolationPolicy} on ${table} ${isolationRule(table, type)}`] : [],
    ...outdated.has(accessPolicy) ? [`alter policy ${accessPolicy} on ${table} ${accessRule}`] : []
  ]
}

/** SQL for a row of `pg_policy`: an earlier version created it, with a subquery. Searches the tree, since pg_get_expr() locks the table. */
export const outdatedSql = `polname in (${literal(isolationPolicy)}, ${literal(accessPolicy)}) and polqual::text like '%{SUBLINK%'`

const accessRule = 'using (true) with check (true)'

/** No subquery: distributed databases do not support them in policies. */
function isolationRule (table: string, type: string): string {
  const column = type === 'text' || type === 'character varying' ? identifier('tenant_id') : `${identifier('tenant_id')}::text`
  const setting = `current_setting(${literal(tenantSetting)})`
  // PostgreSQL does not know the setting; the error names it.
  const raise = `current_setting(${literal(`${tenantSetting} (empty)`)})::boolean`
  // In the order of frequency: the rule is evaluated for each row.
  const rule = `case ${setting} when ${literal(everyTenant)} then true when ${column} then ${column} <> '' or ${raise} when '' then ${raise} when ${
    literal(platformRows)
  } then ${column} = '' else false end`
  // Requests of every tenant may add events of the platform: those of rows without a tenant.
  return `using (${rule}) with check (${table === 'tenantry.webhook_events' ? `(${rule}) or ${column} = ''` : rule})`
}

/** The statements that disable the policies, for development. */
export function disableStatements (table: string): string[] {
  return [`alter table ${table} no force row level security`, `alter table ${table} disable row level security`]
}
