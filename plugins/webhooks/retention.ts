/** Removes old events and deliveries. The cost of a statement does not grow with the number of deliveries that are kept. */
import { type Kysely, sql } from 'kysely'
import { removal, sweep, type SweepPart } from '../../lib/database/retention.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { type Owner, platformRef } from '../../lib/identity/tenant-ref.js'
import { dayMs } from '../../lib/time/spans.js'

const keptMs = 30 * dayMs
// For a tenant's webhooks, or the platform's for the events of one tenant. The oldest ended ones are removed.
const keptDeliveries = 100_000
const sweptEvents = 500 // per statement: each may have hundreds of deliveries
const linesPerRead = 20 // of which each may have `keptDeliveries`

/** Deliveries that are kept together, see `source` of the table. */
interface Line {
  readonly tenant: Owner
  readonly source: Owner
  /** Its deliveries up to this time are too many; null if it has room. As text, which keeps all digits. */
  readonly until: string | null
}

/**
 * Removes events older than 30 days with their deliveries, then the oldest ended deliveries beyond `keptDeliveries` with the events that
 * have no others.
 */
export function sweepDeliveries (db: Kysely<SystemTables>, now: Date): Promise<boolean> {
  return sweep(db, 'tenantry.webhook_deliveries.sweep', [
    removal(
      'tenantry.webhook_events',
      sql`at < ${new Date(now.getTime() - keptMs)} and not exists (
      select from tenantry.webhook_deliveries d where d.event = place and d.status = 'pending')`,
      sweptEvents
    ),
    shortening()
  ])
}

/** Goes from line to line. */
function shortening (): SweepPart {
  let last: Line | undefined
  let isLast = false
  /** For the full lines among those that were read. */
  let removals: SweepPart[] = []
  return async (transaction) => {
    const [remove] = removals
    if (remove === undefined) {
      const lines = await linesAfter(transaction, last)
      last = lines.at(-1)
      isLast = lines.length < linesPerRead
      removals = lines.flatMap(removalsOf)
    } else if (!await remove(transaction)) removals.shift()
    return !isLast || removals.length > 0
  }
}

/** Each step is a look-up in the index, and so is the end of a line. */
async function linesAfter (db: Kysely<SystemTables>, last: Line | undefined): Promise<Line[]> {
  const rest = last === undefined ? sql`true` : sql`(tenant_id, source) > (${last.tenant}, ${last.source})`
  const { rows } = await sql<Line>`with recursive lines as (
      (select tenant_id, source from tenantry.webhook_deliveries where ${rest} order by tenant_id, source limit 1)
      union all
      select next.* from lines, lateral (select tenant_id, source from tenantry.webhook_deliveries
        where (tenant_id, source) > (lines.tenant_id, lines.source) order by tenant_id, source limit 1) next
    )
    select tenant_id as tenant, source, (
      select created_at::text from tenantry.webhook_deliveries d where d.tenant_id = line.tenant_id and d.source = line.source
      order by tenant_id desc, source desc, created_at desc, id desc offset ${keptDeliveries} limit 1) as until
    from (select * from lines limit ${linesPerRead}) line`.execute(db)
  return rows
}

function removalsOf ({ tenant, source, until }: Line): SweepPart[] {
  if (until === null) return []
  const owner = tenant === platformRef ? source : tenant
  return [
    removal(
      'tenantry.webhook_deliveries',
      sql`tenant_id = ${tenant} and source = ${source} and created_at <= ${until}::timestamptz and status <> 'pending'`
    ),
    removal(
      'tenantry.webhook_events',
      sql`tenant_id = ${owner} and fanned_out and not exists (select from tenantry.webhook_deliveries d where d.event = place)`
    )
  ]
}
