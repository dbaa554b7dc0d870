/** One writing statement with its entry in the audit log. Afterwards the cache is invalidated and webhooks are sent. */
import type { CacheStore } from '../../lib/cache/store.js'
import { type AuditEntry, auditStatement } from '../../lib/database/audit.js'
import type { Engine, Session } from '../../lib/database/engine.js'
import { requireMark } from '../../lib/database/idempotency-claim.js'
import { failure, isFailure } from '../../lib/errors.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { BoundQuery, CompiledQuery } from '../../lib/queries/compiled-query.js'
import type { Webhooks } from '../webhooks/webhooks.js'

export interface AuditedWriteDependencies {
  readonly engine: Pick<Engine, 'transaction'>
  /** null if the plugin is not registered. */
  readonly cache: Pick<CacheStore, 'invalidate'> | null
  /** null if the plugin is off: writes then send no events. */
  readonly webhooks: Pick<Webhooks, 'wake'> | null
}

export interface AuditedWrite {
  /** The owner of the rows; the platform for a table without tenants. */
  readonly tenant: Owner
  readonly compiled: Pick<CompiledQuery, 'writes'>
  readonly bound: BoundQuery
  /** The statement writes events. */
  readonly events: boolean
  /** The entry for the result of the statement. */
  readonly entry: (text: string) => AuditEntry
  /** The error if the statement returned no row, found in the same transaction. */
  readonly missing: (session: Session) => Promise<Error>
}

/**
 * Runs the statement and writes the entry in one transaction; resolves with the statement's text. Throws `tenantUnknown`, and rolls back,
 * if the tenant is being deleted: it can have no entries, and a late row would outlive it.
 */
export async function writeAudited (
  { engine, cache, webhooks }: AuditedWriteDependencies,
  { tenant, compiled, bound, events, entry, missing }: AuditedWrite
): Promise<string> {
  const written = async (): Promise<void> => {
    await cache?.invalidate(tenant, compiled.writes)
  }
  try {
    const text = await engine.transaction({ tenant }, async (session) => {
      const text = await session.text(bound.statement, bound.values)
      if (text === null) throw await missing(session)
      const audited = entry(text)
      const { claim } = audited.actor
      if (claim !== undefined) requireMark(await session.rows(claim.mark, claim.mark.values))
      const { text: audit, values } = auditStatement([audited])
      const [kept] = await session.rows({ text: `${audit} returning true as kept` }, values)
      if (kept === undefined) throw failure('tenantUnknown')
      return text
    })
    await written()
    return text
  } catch (error) {
    // The connection was lost: the database may still have committed.
    if (isFailure(error, 'databaseUnavailable')) await written()
    throw error
  } finally {
    if (events) webhooks?.wake()
  }
}
