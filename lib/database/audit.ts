/**
 * The audit log: actor, action, tenant, address, time and outcome of each change. Entries are never changed, except the hourly one that
 * counts uses of a secret. The tenant's plan sets how long they are kept. A change and its entry are written in one transaction.
 */
import type { FastifyBaseLogger } from 'fastify'
import { CompiledQuery, type Kysely } from 'kysely'
import { type Owner, startOfLife, type TenantLife, tenantRef } from '../identity/tenant-ref.js'
import { storable } from '../json/storable.js'
import { type IdempotencyClaim, markClaim } from './idempotency-claim.js'
import type { SystemTables } from './system-tables.js'

export const auditActions = [
  'secret.create', 'secret.update', 'secret.access', 'secret.delete', 'secret.rotate', 'secret.expire',
  'api_key.create', 'api_key.rotate', 'api_key.delete', 'role.create', 'role.update', 'role.delete', 'role.replace',
  'config.save', 'limits.save', 'auth.login', 'auth.refresh', 'auth.mfa', 'auth.register', 'auth.logout',
  'auth.logout_all', 'auth.password.forgot', 'auth.password.reset', 'auth.password.change', 'auth.email.verify',
  'auth.email.resend', 'user.create', 'user.invite', 'user.accept', 'user.update', 'user.delete', 'mfa.setup',
  'mfa.verify', 'mfa.enable', 'mfa.disable', 'mfa.backup_codes', 'mfa.backup_code', 'rbac.role.create',
  'rbac.role.update', 'rbac.role.delete', 'rbac.permission.create', 'rbac.permission.delete', 'rbac.assign',
  'rbac.unassign', 'billing.upgrade', 'billing.plan', 'billing.subscription', 'billing.payment', 'billing.event',
  'billing.event_unclaimed', 'tenant_billing.product.create', 'tenant_billing.checkout.create',
  'tenant_billing.subscription.cancel', 'workflow.run', 'workflow.cancel', 'cache.clear', 'cache.delete',
  'queue.job.add', 'queue.job.cancel', 'queue.job.retry', 'webhook.secret', 'webhook.redeliver', 'integration.run',
  'entity.list', 'entity.read', 'entity.delete', 'entity.restore', 'publish.entity', 'file.create', 'file.delete',
  'file.infected', 'document.create', 'document.replace', 'document.delete', 'document.reindex',
  'conversation.delete', 'mcp.execute', 'tenant.create', 'tenant.update', 'tenant.delete', 'migration.apply'
] as const
export type AuditAction = typeof auditActions[number]

/** The actor of an entry. */
export interface Actor {
  /** The `sub`; null for the server itself, and for callers without credentials. */
  readonly userId: string | null
  /** The address of the request; null without one, or if it is hidden from the tenant. */
  readonly address: string | null
  /** The id of the tenant's API key that replaced a token; it is `apiKey` in the details of the entry. */
  readonly apiKey?: string | undefined
  /** Set if the request has an idempotency key; the transaction of a successful entry marks it. */
  readonly claim?: IdempotencyClaim | undefined
}

/** The actor of the server's own changes. */
export const noActor: Actor = Object.freeze({ userId: null, address: null })

export interface AuditEntry {
  /** The tenant of the log; empty for the platform's. */
  readonly tenant: Owner
  /** As the caller found the tenant: a later tenant with its id gets no entry. Default: the present tenant. */
  readonly life?: TenantLife | undefined
  readonly action: AuditAction
  readonly actor: Actor
  /** The changed thing: a key, a role, an e-mail address. Never a secret value. */
  readonly target?: string | null | undefined
  /** Default: `success`. */
  readonly outcome?: 'success' | 'failure' | undefined
  /** Further facts, as JSON, without secrets. */
  readonly details?: Readonly<Record<string, unknown>> | undefined
  readonly at: Date
}

const maxText = 256 // characters of a stored user, address, target, and of each text of the details

/** The `tenant_id` of a deleted tenant's entries. No id has a `~`, so a new tenant of the same id never reads them. */
export function archivedTenant (id: string): Owner {
  return tenantRef(`${archiveMark}${id}`)
}

/** The tenant of a `tenant_id` of the audit log; null for the platform. */
export function tenantOfEntry (tenantId: string): { readonly id: string | null, readonly deleted: boolean } {
  if (tenantId.startsWith(archiveMark)) return { id: tenantId.slice(archiveMark.length), deleted: true }
  return { id: tenantId === '' ? null : tenantId, deleted: false }
}

const archiveMark = '~'

const columns = 'tenant_id, action, user_id, address, target, outcome, details, created_at'

const text = `with given as materialized (
  select * from rows from (jsonb_to_recordset($1::jsonb) as (
    tenant_id text, action text, user_id text, address text, target text, outcome text, details jsonb, created_at timestamptz,
    since timestamptz
  )) with ordinality as g (${columns}, since, place)
), live as materialized (
  select id, created_at as born from tenantry.tenants where id in (select tenant_id from given) and status <> 'deleting'
  order by id for key share
)
insert into tenantry.audit_log (${columns})
select ${columns} from given
where tenant_id = '' or exists (
  select from live where id = tenant_id and (since is null or (born >= since and born < since + interval '1 ms'))
) order by place`

/** Adds the entries, except those of tenants that are being deleted, and of earlier tenants with the ids. */
export async function writeAudit (db: Kysely<SystemTables>, ...entries: readonly AuditEntry[]): Promise<void> {
  const claim = entries.find(({ actor, outcome }) => actor.claim !== undefined && outcome !== 'failure')?.actor.claim
  if (claim !== undefined && db.isTransaction) await markClaim(db, claim)
  const { text, values } = auditStatement(entries)
  await db.executeQuery(CompiledQuery.raw(text, [...values]))
}

/** The life must be named: the change may have taken long. */
type LateEntry = AuditEntry & { readonly life: TenantLife | undefined }

interface TenantDatabases {
  kyselyFor(tenant: Owner): Kysely<SystemTables>
}

/**
 * Adds the entry of a change outside the database, which no transaction undoes. Never rejects: the change is answered in any case, and the
 * log has an entry that cannot be written.
 */
export async function noteAudit (
  { engine, log }: { readonly engine: TenantDatabases, readonly log: Pick<FastifyBaseLogger, 'error'> },
  entry: LateEntry
): Promise<void> {
  const { tenant, action, actor: { userId }, target, outcome = 'success', details } = entry
  try {
    await writeAudit(engine.kyselyFor(tenant), entry)
  } catch (err) {
    log.error({ err, tenant, action, userId, target, outcome, details }, 'an entry of the audit log could not be written')
  }
}

/** As `writeAudit`, but returns a statement for callers without kysely. */
export function auditStatement (entries: readonly AuditEntry[]): { readonly text: string, readonly values: readonly unknown[] } {
  return {
    text,
    values: [JSON.stringify(entries.map(rowOf), (_name, value: unknown) => typeof value === 'string' ? keptText(value) : value)]
  }
}

function rowOf ({ tenant, life, action, actor: { userId, address, apiKey }, target, outcome = 'success', details, at }: AuditEntry) {
  const completed = apiKey === undefined ? details : { apiKey, ...details }
  const since = life === undefined ? undefined : new Date(startOfLife(life))
  return { tenant_id: tenant, action, user_id: userId, address, target, outcome, details: completed, created_at: at, since }
}

/** A text as the log stores it: cut, and with another character for each NUL and lone surrogate, so that distinct users stay distinct. */
export function keptText (text: string): string {
  return storable(text.length > maxText ? `${text.slice(0, maxText - 1)}…` : text)
}
