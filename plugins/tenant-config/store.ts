/** The documents that tenants saved, in tenantry.tenant_configs. */
import { type Kysely, sql } from 'kysely'
import { type Actor, writeAudit } from '../../lib/database/audit.js'
import type { Events } from '../../lib/database/events.js'
import { databaseTime } from '../../lib/database/sql.js'
import type { SystemTables, SystemTransaction } from '../../lib/database/system-tables.js'
import { lockTenant } from '../../lib/database/tenant-lock.js'
import { failure } from '../../lib/errors.js'
import type { Claims } from '../../lib/expressions/types.js'
import type { Page } from '../../lib/http/page.js'
import { lifeOf, type Owner } from '../../lib/identity/tenant-ref.js'
import type { Workflow } from '../../lib/schema/workflow.js'
import { saveSchedules } from '../../lib/workflows/schedule-rows.js'
import { requirePresent } from '../sessions/present.js'
import type { TenantRecord } from '../tenancy/tenant.js'

const keptVersions = 100 // of a tenant; the oldest are deleted
const maxAudited = 100 // keys of secrets in one entry of the audit log
const keptBytes = 10_485_760 // bytes of the kept versions, as PostgreSQL stores them

export interface SavedDocument {
  /** Counts from 1; 0 if nothing was saved yet. */
  readonly version: number
  readonly document: Readonly<Record<string, unknown>>
  readonly createdAt: Date
}

export interface Saving {
  /** As the request found it. */
  readonly tenant: Pick<TenantRecord, 'id' | 'createdAt'>
  /** JSON text. */
  readonly document: string
  /** The keys of the secrets that the document reads, for the audit log. */
  readonly secrets: readonly string[]
  readonly workflows: readonly Workflow[]
  readonly claims: Claims
  readonly actor: Actor
  /** Throws if the version in force must not be replaced. */
  readonly guard: (version: number) => void
}

export type ConfigStore = ReturnType<typeof createConfigStore>

/**
 * @param dbFor runs statements in the tenant's turn for a connection
 * @param providers the names of the external identity providers
 */
export function createConfigStore (dbFor: (tenant: Owner) => Kysely<SystemTables>, events: Events, providers: readonly string[]) {
  return {
    /** The document in force, or that of an earlier version. undefined if there is none. */
    read (tenant: Owner, version?: number): Promise<SavedDocument | undefined> {
      const documents = dbFor(tenant).selectFrom('tenantry.tenant_configs').select(['version', 'document', 'created_at as createdAt'])
        .where('tenant_id', '=', tenant)
      return (version === undefined ? documents : documents.where('version', '=', version))
        .orderBy('version', 'desc').limit(1).executeTakeFirst()
    },

    /** Newest first. */
    async versions (tenant: Owner, { limit, offset }: Page) {
      const versions = dbFor(tenant).selectFrom('tenantry.tenant_configs').where('tenant_id', '=', tenant)
      const [data, { total }] = await Promise.all([
        versions.select(['version', 'created_at as createdAt', 'created_by as createdBy']).orderBy('version', 'desc').limit(limit)
          .offset(offset).execute(),
        versions.select(sql<number>`count(*)::int`.as('total')).executeTakeFirstOrThrow()
      ])
      return { data, total }
    },

    /**
     * Saves a document and notifies every server. Resolves with the new version. Throws `tenantUnknown` if the tenant has ended since the
     * request began, and `tokenInvalid` if the caller has.
     */
    save: ({ tenant: { id: tenant, createdAt }, document, secrets, workflows, claims, actor, guard }: Saving): Promise<number> =>
      events.change({ topic: 'config', tenant }, async (transaction) => {
        // Concurrent saves of a tenant wait here.
        if (!await lockTenant(transaction, tenant, 'alone', lifeOf({ id: tenant, createdAt }))) throw failure('tenantUnknown')
        await requirePresent(transaction, claims, new Date(), providers)
        const current = await versionOf(transaction, tenant)
        guard(current)
        const version = current + 1
        await transaction.insertInto('tenantry.tenant_configs').values({
          tenant_id: tenant,
          version,
          document,
          created_by: actor.userId ?? ''
        }).execute()
        await sql`
        delete from tenantry.tenant_configs where tenant_id = ${tenant} and version < ${version} and version in (
          select version from (
            select version, row_number() over newest as place, sum(pg_column_size(document)) over newest as bytes
            from tenantry.tenant_configs where tenant_id = ${tenant} window newest as (order by version desc)
          ) kept where place > ${keptVersions} or bytes > ${keptBytes})`.execute(transaction)
        await saveSchedules(transaction, tenant, workflows, await databaseTime(transaction))
        await writeAudit(transaction, {
          tenant,
          action: 'config.save',
          actor,
          details: { version, ...secrets.length > 0 && { secrets: secrets.slice(0, maxAudited) } },
          at: new Date()
        })
        return version
      })
  }
}

/** The version in force, 0 without one. */
async function versionOf (transaction: SystemTransaction, tenant: Owner): Promise<number> {
  const last = await transaction.selectFrom('tenantry.tenant_configs').select('version').where('tenant_id', '=', tenant)
    .orderBy('version', 'desc').limit(1).executeTakeFirst()
  return last?.version ?? 0
}
