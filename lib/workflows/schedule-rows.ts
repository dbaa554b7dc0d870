/** The rows of scheduled workflows, in tenantry.workflow_schedules. */
import { type Kysely, sql } from 'kysely'
import type { SystemTables } from '../database/system-tables.js'
import type { Owner } from '../identity/tenant-ref.js'
import type { Workflow } from '../schema/workflow.js'
import { parseSchedule } from '../time/schedule.js'

/** Replaces the schedules of a document; an unchanged one keeps its next time. */
export async function saveSchedules (db: Kysely<SystemTables>, tenant: Owner, workflows: readonly Workflow[], now: Date): Promise<void> {
  const rows = rowsOf(tenant, workflows, now)
  const kept = rows.map(({ workflow }) => workflow)
  await db.deleteFrom('tenantry.workflow_schedules').where('tenant_id', '=', tenant)
    .where('workflow', '<>', sql<string>`all(${kept}::text[])`).execute()
  await write(db, rows)
}

/** Adds schedules of a document, and changes existing ones. Those of other workflows stay. */
export async function addSchedules (db: Kysely<SystemTables>, tenant: Owner, workflows: readonly Workflow[], now: Date): Promise<void> {
  await write(db, rowsOf(tenant, workflows, now))
}

interface ScheduleRow {
  readonly tenant_id: Owner
  readonly workflow: string
  readonly schedule: string
  readonly next_at: Date
}

function rowsOf (tenant: Owner, workflows: readonly Workflow[], now: Date): ScheduleRow[] {
  return workflows.flatMap(({ id, schedule }) => {
    const read = schedule === undefined ? undefined : parseSchedule(schedule)
    const next = read === undefined || 'reason' in read ? null : read.next(now)
    return read === undefined || 'reason' in read || next === null
      ? []
      : [{ tenant_id: tenant, workflow: id, schedule: read.text, next_at: next }]
  })
}

async function write (db: Kysely<SystemTables>, rows: readonly ScheduleRow[]): Promise<void> {
  if (rows.length === 0) return
  await db.insertInto('tenantry.workflow_schedules').values(rows)
    .onConflict((conflict) =>
      conflict.columns(['tenant_id', 'workflow']).doUpdateSet((row) => ({
        schedule: row.ref('excluded.schedule'),
        next_at: row.ref('excluded.next_at')
      }))
        .whereRef('tenantry.workflow_schedules.schedule', '<>', 'excluded.schedule')
    )
    .execute()
}
