/** Removes a tenant's rows and documents from the application's tables and the server's own tables. Archives its audit entries. */
import type { FastifyInstance } from 'fastify'
import { type Kysely, sql } from 'kysely'
import { archivedTenant } from '../../lib/database/audit.js'
import type { Table } from '../../lib/database/catalogue.js'
import { topics } from '../../lib/database/events.js'
import { jobStates } from '../../lib/database/job-states.js'
import { identifier, qualified } from '../../lib/database/sql.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { hasTenant, waitForWrites } from '../../lib/database/tenant-lock.js'
import { failure, isFailure } from '../../lib/errors.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { type Plans, unlimited } from '../../lib/plans/plans.js'
import { deletionOrder, type Referrer, referrersOf } from './deletion-order.js'

const auditLog = 'tenantry.audit_log'
const batchSize = 1000 // rows per statement; fewer if that takes too long

export type Erasure = ReturnType<typeof createErasure>

/** A table in a statement. */
interface Target {
  /** With its schema, quoted. */
  readonly name: string
  /** The condition for the tenant's rows; `$1` is the tenant. */
  readonly owned: string
}

/** @param signal ends the work before its next statement */
export function createErasure (
  { engine, db, events, firestore }: Pick<FastifyInstance, 'engine' | 'db' | 'events' | 'firestore'>,
  plans: Plans,
  signal?: AbortSignal
) {
  async function sweep (tenant: Owner): Promise<void> {
    const { schema, tables } = await engine.refresh()
    const present = await presentTables(db, schema)
    const scoped = [...tables.values()].filter(({ name, tenantScoped, view }) => tenantScoped && !view && present.has(name))
    const referrers = referrersOf(scoped)
    for (const group of deletionOrder(scoped, referrers)) {
      if (group.circular) await untangle(tenant, schema, group.tables, referrers)
      else for (const table of group.tables) await removable(table.name, () => empty(tenant, targetOf(schema, table)))
    }
    const listed: ReadonlySet<string> = new Set(tenantOwnedTables)
    const others = [...await presentTables(db, 'tenantry')].filter((name) => !listed.has(`tenantry.${name}`)).map((name) =>
      `tenantry.${identifier(name)}`
    )
    await inBatches((size) => archive(tenant, size))
    for (const name of [...tenantOwnedTables, ...others]) {
      if (name !== auditLog) for (const target of targetsOf(name)) await empty(tenant, target)
    }
    await firestore?.erase(tenant, async () => {
      signal?.throwIfAborted()
      return !await hasTenant(db, tenant)
    })
  }

  /** Removes rows in batches; returns their number. */
  async function empty (tenant: Owner, target: Target, leaf: readonly string[] = []): Promise<number> {
    return await inBatches((size) => remove(tenant, `${batch(target, leaf, size)} select count(*)::text from gone`))
  }

  /** Repeats the statement until it finds no row; returns the total number of rows. */
  async function inBatches (statement: (size: number) => Promise<number>): Promise<number> {
    let found = 0
    for (let size = batchSize; ;) {
      signal?.throwIfAborted()
      try {
        const count = await statement(size)
        found += count
        if (count === 0) return found
      } catch (error) {
        // The statement has timed out: perhaps the table lacks an index on a foreign key.
        if (!isFailure(error, 'databaseBusy') || size === 1) throw error
        size = Math.ceil(size / 10)
      }
    }
  }

  /**
   * Tables that refer to each other in a circle. First it repeatedly removes rows that no other row refers to. The remaining rows
   * refer to each other in circles and are removed in one statement.
   */
  async function untangle (
    tenant: Owner,
    schema: string,
    tables: readonly Table[],
    referrers: ReadonlyMap<string, readonly Referrer[]>
  ): Promise<void> {
    let progress = true
    while (progress) {
      progress = false
      for (const table of tables) {
        const keys = (referrers.get(table.name) ?? []).filter((key) => tables.includes(key.table))
        const leaf = keys.map((key) => unreferred(key, targetOf(schema, key.table)))
        if (await removable(table.name, () => empty(tenant, targetOf(schema, table), leaf)) > 0) progress = true
      }
    }
    const targets = tables.map((table) => targetOf(schema, table))
    const parts = targets.map(({ name, owned }, index) =>
      `gone${index} as (delete from ${name} where ${owned} and ${unowned} returning 1)`
    )
    const counts = targets.map((_target, index) => `(select count(*) from gone${index})`)
    const names = tables.map(({ name }) => name).join('", "')
    await removable(names, () => remove(tenant, `with ${parts.join(', ')} select (${counts.join(' + ')})::text`))
  }

  /** Moves audit entries to the archive, with the end of their retention by the tenant's plan. */
  async function archive (tenant: Owner, size: number): Promise<number> {
    const row = await db.selectFrom('tenantry.tenants').select('plan').where('id', '=', tenant).executeTakeFirst()
    const { auditRetentionDays: days } = plans.of(row?.plan).limits.tenantConfig
    const keptUntil = days === unlimited ? sql`'infinity'` : sql`created_at + make_interval(days => ${days}::int)`
    // The hour is null, so that uses of a secret in the hour of an earlier deletion do not conflict.
    const { numAffectedRows = 0n } = await sql`update tenantry.audit_log set tenant_id = ${archivedTenant(tenant)}, hour = null, kept_until = ${keptUntil}
      where id = any (array(select id from tenantry.audit_log where tenant_id = ${tenant}
        and not exists (select from tenantry.tenants where id = ${tenant} and status <> 'deleting') limit ${size}))`.execute(db)
    return Number(numAffectedRows)
  }

  async function remove (tenant: Owner, text: string): Promise<number> {
    // In the tenant's own session, which sees its rows under any further policies of the table.
    return Number(await engine.text({ text }, [tenant], { tenant, first: { statement: inTurn, values: [tenant] } }))
  }

  return {
    /**
     * Removes every row and document of a tenant that is `deleting`, or of an id without a tenant. Never touches rows of other tenants,
     * even if a tenant with the id is created meanwhile.
     */
    sweep,
    /** Removes every row of a tenant that is `deleting`, including rows written meanwhile by earlier requests. */
    async erase (tenant: Owner): Promise<void> {
      await waitForWrites(db, tenant, signal)
      await sweep(tenant)
      // A request that began before the tenant was `deleting` may have written to an emptied table without a lock of the tenant, or with an
      // earlier snapshot. Most such requests have ended by now.
      // Rows of a slower one belong to no tenant and cannot be read. They are removed before a tenant with that id is created again.
      await sweep(tenant)
      // Caches are cleared before a tenant with the id can be created again.
      for (const topic of topics) await events.change({ topic, tenant }, async () => {})
    }
  }
}

/**
 * Servers that erase the same tenant remove one batch after the other. Otherwise a batch that finds only rows that another server is
 * removing would remove none, as if the table were empty.
 */
const inTurn = { text: "select pg_advisory_xact_lock(hashtextextended('tenantry.erasure ' || $1, 0))" }

/** True while no tenant has the id. It is evaluated in the statement's snapshot, which contains no rows of a later tenant with the id. */
const unowned = "not exists (select from tenantry.tenants where id = $1 and status <> 'deleting')"

function batch ({ name, owned }: Target, leaf: readonly string[], size: number): string {
  // In a partitioned table, several partitions can have the same ctid. Rows found there are the tenant's too.
  return `with gone as (delete from ${name} where ${owned} and ctid = any (array(
    select t.ctid from ${name} t where ${[owned, unowned, ...leaf].join(' and ')} limit ${size})) returning 1)`
}

/** The condition that no row refers to the row `t` by the key. */
function unreferred ({ columns, referencedColumns }: Referrer, { name }: Target): string {
  const equal = columns.map((column, index) => `r.${identifier(column)} = t.${identifier(referencedColumns[index]!)}`)
  return `not exists (select from ${name} r where ${equal.join(' and ')})`
}

/** The rows of a system table: of jobs by their state, since each of their indexes has those of one state. */
function targetsOf (name: string): Target[] {
  const owned = 'tenant_id = $1'
  return name === 'tenantry_queue.job' ? jobStates.map((state) => ({ name, owned: `${owned} and state = '${state}'` })) : [{ name, owned }]
}

function targetOf (schema: string, { name, columns }: Table): Target {
  const type = columns.get('tenant_id')?.type
  // In a uuid column, for example, most ids of tenants are invalid.
  const owned = type === 'text' || type === 'character varying' ? 'tenant_id = $1' : 'tenant_id::text = $1'
  return { name: qualified(schema, name), owned }
}

/** The catalogue contains declared tables before they are created, and does not distinguish tables from views. */
async function presentTables (db: Kysely<SystemTables>, schema: string): Promise<ReadonlySet<string>> {
  const { rows } = await sql<{ name: string }>`
    select c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid
    where n.nspname = ${schema} and c.relkind in ('r', 'p', 'f') and a.attname = 'tenant_id' and not a.attisdropped`.execute(db)
  return new Set(rows.map(({ name }) => name))
}

/** Names the table in the error: its rows cannot be removed, since rows of another tenant, or without a tenant, refer to them. */
async function removable (table: string, work: () => Promise<number>): Promise<number> {
  try {
    return await work()
  } catch (error) {
    if (!isFailure(error, 'constraintViolated')) throw error
    throw failure('conflict', {
      message:
        `Rows of the tenant in "${table}" cannot be deleted: other rows refer to them, or a trigger prevents it. The tenant stays closed; remove those rows and delete the tenant again`,
      cause: error
    })
  }
}

/**
 * The system tables with rows of tenants, in the order in which the deletion of a tenant empties them. The entries of the audit
 * log are archived instead. The list has every table with a column `tenant_id`, except tables whose names come from the document
 * (declared-tables.ts, document-tables.ts), which are emptied last. A test compares the list with the database.
 */
export const tenantOwnedTables = [
  'tenantry.realtime_outbox', 'tenantry.realtime_recorded', 'tenantry.realtime_changes', 'tenantry.realtime_heads',
  'tenantry.realtime_members', 'tenantry.realtime_messages', 'tenantry.webhook_deliveries', 'tenantry.webhook_events',
  'tenantry.webhook_secrets', 'tenantry.webhook_receipts', 'tenantry.idempotency_keys', 'tenantry.usage_notices',
  'tenantry.oauth_tokens', 'tenantry_queue.job', 'tenantry.workflow_schedules', 'tenantry.workflow_steps',
  'tenantry.workflow_runs', 'tenantry.file_parts', 'tenantry.file_transforms', 'tenantry.files',
  'tenantry.agent_batch_documents', 'tenantry.agent_batches', 'tenantry.agent_stale_vectors', 'tenantry.agent_chunks',
  'tenantry.agent_documents', 'tenantry.conversation_messages', 'tenantry.conversations', 'tenantry.documents',
  'tenantry.tenant_configs', 'tenantry.audit_log', 'tenantry.attempts', 'tenantry.user_mfa', 'tenantry.user_links',
  'tenantry.refresh_tokens', 'tenantry.users', 'tenantry.revocations', 'tenantry.secret_earlier_values',
  'tenantry.secrets', 'tenantry.api_keys', 'tenantry.tenant_roles', 'tenantry.tenant_rbac', 'tenantry.resource_usage',
  'tenantry.resource_limits', 'tenantry.request_stats', 'tenantry.usage_reservations', 'tenantry.usage_requests',
  'tenantry.usage_counters', 'tenantry.usage_gauges', 'tenantry.billing_events', 'tenantry.billing_subscriptions',
  'tenantry.billing_tenants'
] as const satisfies readonly (keyof SystemTables)[]
