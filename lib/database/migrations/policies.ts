/**
 * Row-level security of tenant-scoped tables (DESIGN 3, "Tenant isolation of rows").
 *
 * The setting `app.tenant_id` says whose rows a session sees and writes: those of that tenant, or with `*` (which no
 * tenant's id can be) those of all. Where it is not set there are none: policies fail closed, for the owner of the table
 * too (FORCE). The server's own sessions have `*`, so that it works the same without `postgres.rowLevelSecurity`; with it
 * each transaction of a request sets its tenant, or the empty text where it has none, over that. Whoever looks at a table
 * by other means, under a role that policies bind, sets it too: `set app.tenant_id = '*'`.
 *
 * Permissive policies of one table add up, so a policy that somebody adds later could open it again. The one that keeps
 * tenants apart is therefore restrictive; a permissive one beside it is there only where the table has no other, since
 * without any nothing is visible.
 */
import { identifier } from '../sql.js'

export const isolationPolicy = 'tenantry_isolation'
export const accessPolicy = 'tenantry_access'

/** What a table has already. */
export interface Security {
  readonly enabled: boolean
  readonly forced: boolean
  readonly policies: readonly { readonly name: string, readonly permissive: boolean }[]
}

export const noSecurity: Security = { enabled: false, forced: false, policies: [] }

/** The statements that a table lacks; none where it is secured. `table` is quoted; `type` is that of `tenant_id`. */
export function policyStatements (table: string, type: string, { enabled, forced, policies }: Security): string[] {
  // The subquery is evaluated once a statement, the bare function would be once a row.
  const column = type === 'text' || type === 'character varying' ? identifier('tenant_id') : `${identifier('tenant_id')}::text`
  const rule = `((select current_setting('app.tenant_id', true)) in (${column}, '*'))`
  const policy = (name: string, kind: string) => `create policy ${name} on ${table} as ${kind} using ${rule} with check ${rule}`
  return [
    ...policies.some(({ name }) => name === isolationPolicy) ? [] : [policy(isolationPolicy, 'restrictive')],
    ...policies.some(({ permissive }) => permissive) ? [] : [policy(accessPolicy, 'permissive')],
    ...enabled ? [] : [`alter table ${table} enable row level security`],
    ...forced ? [] : [`alter table ${table} force row level security`]
  ]
}

/** The statements that take the policies out of force, for development. */
export function disableStatements (table: string): string[] {
  return [`alter table ${table} no force row level security`, `alter table ${table} disable row level security`]
}
