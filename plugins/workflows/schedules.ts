/** Starts workflows at their scheduled times. All processes check; the first to write a run starts it. */
import type { FastifyInstance } from 'fastify'
import { type Kysely, sql } from 'kysely'
import { forEachTenant } from '../../lib/concurrency/by-tenant.js'
import { repeat } from '../../lib/concurrency/repeat.js'
import { isOutage } from '../../lib/database/failures.js'
import { databaseTime } from '../../lib/database/sql.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { isFailure, TenantryError } from '../../lib/errors.js'
import { type Owner, platformRef } from '../../lib/identity/tenant-ref.js'
import type { Workflow } from '../../lib/schema/workflow.js'
import { parseSchedule } from '../../lib/time/schedule.js'
import { dayMs } from '../../lib/time/spans.js'
import { addSchedules } from '../../lib/workflows/schedule-rows.js'
import type { CompiledWorkflow } from '../../lib/workflows/types.js'
import type { Documents } from './documents.js'
import type { RunStore } from './store.js'

const pageSize = 10_000 // due times that are read at once
const atOnce = 10 // tenants whose schedules are started at a time
const turnMs = 5000 // for the schedules of a tenant; the others stay due until the next check
const pollMs = 10_000
// Times that stay due, although servers with their schedule start them within seconds.
const replacedAfter = 60_000 // ms until a schedule of this document replaces another version's
const removedAfter = dayMs // until a schedule that this document lacks is removed: its server may be away

/** A time of a schedule. */
export interface DueTime {
  readonly tenant: Owner
  readonly workflow: string
  readonly at: Date
  /** The time after it. */
  readonly next: Date
}

/** Another process has started this run, or the schedule has changed. */
class NotDue extends Error {
  override readonly name = 'NotDue'
}

/** Sorts the schedules of a transaction: in different orders, those of two processes would block each other. */
export function inLockOrder (one: DueTime, other: DueTime): number {
  const [left, right] = one.tenant === other.tenant ? [one.workflow, other.workflow] : [one.tenant, other.tenant]
  return left < right ? -1 : Number(left > right)
}

/** Moves a schedule on to its next time. Throws `NotDue` unless it is at this time, so that only one process succeeds. */
export async function passDue (transaction: Kysely<SystemTables>, { tenant, workflow, at, next }: DueTime, run?: string): Promise<void> {
  // Otherwise the schedule would stay due: each check of each process would start a run.
  if (next <= at) throw new Error('the next time of a schedule must be later than the current one')
  // PostgreSQL's times have microseconds.
  const { numUpdatedRows } = await transaction.updateTable('tenantry.workflow_schedules').set({
    next_at: next,
    ...run !== undefined && { last_run: run }
  })
    .where('tenant_id', '=', tenant).where('workflow', '=', workflow).where('next_at', '<', new Date(at.getTime() + 1)).executeTakeFirst()
  if (numUpdatedRows === 0n) throw new NotDue('the schedule is at another time')
}

export interface SchedulesParts {
  readonly app: FastifyInstance
  readonly store: RunStore
  readonly documents: Documents
  /** The schedules of the platform's document. */
  readonly workflows: readonly Workflow[]
  /** Writes a run with `passDue`, in one transaction. */
  readonly start: (due: DueTime, workflow: CompiledWorkflow, input: unknown) => Promise<void>
}

export type Schedules = ReturnType<typeof createSchedules>

interface Row {
  readonly tenant: Owner
  readonly workflow: string
  readonly schedule: string
  readonly at: Date
  /** The same as text, which keeps all digits. */
  readonly position: string
  readonly lastRun: string | null
}

export function createSchedules ({ app, store, documents, workflows, start }: SchedulesParts) {
  const { db, tenants, log } = app
  const scheduled = workflows.filter(({ schedule }) => schedule !== undefined)
  const texts = new Map(scheduled.map(({ id, schedule }) => [id, textOf(schedule)]))
  /** The last stored schedules of own workflows. */
  const seen = new Map<string, string>()
  /** Due times of other versions of the platform's document, by workflow, and when a check first found them. */
  const others = new Map<string, { readonly due: string, readonly found: number }>()
  let saved = false
  let isStopping = false

  /** Starts due runs and resolves with their number. Of several missed times, only the last counts. */
  async function startDue (now: Date): Promise<number> {
    await addOwn(now)
    let started = 0
    let page = await dueRows(now)
    for (;;) {
      started += await startAll(page, now)
      const last = page.at(-1)
      // Rows whose documents cannot be read stay due. They must not hide those of other tenants.
      if (isStopping || last === undefined || page.length < pageSize) return started
      page = await dueRows(now, last)
    }
  }

  /**
   * Saves the platform's schedules once, then those whose rows were removed. Rows of other workflows stay: during an update, they belong
   * to a server with another version of the document.
   */
  async function addOwn (now: Date): Promise<void> {
    const known = saved && scheduled.length > 0 ? await platformRows() : new Map<string, string>()
    await addSchedules(db, platformRef, scheduled.filter(({ id }) => !known.has(id)), now)
    saved = true
    for (const [workflow, stored] of known) noteStored(workflow, stored)
  }

  /** The schedules of the platform's workflows, by workflow. */
  async function platformRows (): Promise<ReadonlyMap<string, string>> {
    const rows = await db.selectFrom('tenantry.workflow_schedules').select(['workflow', 'schedule']).where('tenant_id', '=', platformRef)
      .execute()
    return new Map(rows.map(({ workflow, schedule }) => [workflow, schedule]))
  }

  /** Warns once if a server with another version of the document has changed an own schedule: the next time may be in a year. */
  function noteStored (workflow: string, stored: string): void {
    const schedule = texts.get(workflow)
    if (schedule === undefined || seen.get(workflow) === stored) return
    seen.set(workflow, stored)
    if (stored === schedule) return
    log.warn(
      { workflow, schedule, stored },
      'a server with another document has changed the schedule of a workflow: if that is wrong, restart a server with this document'
    )
  }

  async function startAll (page: readonly Row[], now: Date): Promise<number> {
    let started = 0
    await forEachTenant(page, atOnce, async (rows) => {
      const count = await startOf(rows, now)
      started += count
    })
    return started
  }

  /** The due times after `last`, the earliest first. */
  async function dueRows (now: Date, last?: Row): Promise<Row[]> {
    const rest = last === undefined
      ? sql`true`
      : sql`(next_at, tenant_id, workflow) > (${last.position}::timestamptz, ${last.tenant}, ${last.workflow})`
    const { rows } = await sql<Row>`select tenant_id as tenant, workflow, schedule, next_at as at, next_at::text as position,
      last_run as "lastRun"
      from tenantry.workflow_schedules where next_at <= ${now} and ${rest} order by next_at, tenant_id, workflow limit ${pageSize}`.execute(db)
    return rows
  }

  /** Starts the due runs of a tenant, of which some may wait for the tenant's other work. */
  async function startOf (rows: readonly Row[], now: Date): Promise<number> {
    const end = performance.now() + turnMs
    let started = 0
    for (const row of rows) {
      if (isStopping) break
      try {
        if (await startOne(row, now)) started++
      } catch (error) {
        if (isFailure(error, 'databaseUnavailable')) throw error
        const { tenant, workflow } = row
        if (!(error instanceof NotDue)) log.error({ err: error, tenant, workflow }, 'a scheduled workflow could not be started; retrying')
        if (isOutage(error)) break
      }
      if (performance.now() > end) break
    }
    return started
  }

  /** Whether it was started. A row without its schedule in the loaded document stays due. */
  async function startOne (row: Row, now: Date): Promise<boolean> {
    const { tenant, workflow: id, schedule, at, lastRun } = row
    const named = await documents.find(tenant, id)
    const read = named?.schedule === undefined ? undefined : parseSchedule(named.schedule)
    // The row may belong to another version of the document, which another process has loaded.
    if (named === undefined || read === undefined || 'reason' in read || read.text !== schedule) {
      if (tenant === platformRef) await endForeign(row, now)
      return false
    }
    const next = read.next(now)
    if (next === null) return false
    const due: DueTime = { tenant, workflow: id, at, next }
    const skip = async (reason: string): Promise<boolean> => {
      await passDue(db, due)
      log.warn({ tenant, workflow: id, at }, `a scheduled workflow was not started: ${reason}`)
      return false
    }
    const found = tenant === platformRef ? null : await tenants.get(tenant)
    if (tenant !== platformRef && found?.status !== 'active') return skip('the tenant is suspended or was deleted')
    if (lastRun !== null && await store.isOpen(tenant, lastRun)) return skip('the previous run has not ended')
    const workflow = named.compiled()
    if (workflow === null) return skip('the database no longer has the tables or columns of the workflow')
    try {
      await start(due, workflow, named.schedule?.input ?? {})
      return true
    } catch (error) {
      if (isOutage(error) || !(error instanceof TenantryError)) throw error
      return skip(error.message)
    }
  }

  /** Replaces or removes a schedule of another version of the document whose time no server has started. */
  async function endForeign ({ workflow, schedule, at, position }: Row, now: Date): Promise<void> {
    const due = `${position} ${schedule}`
    const before = others.get(workflow)
    const found = before?.due === due ? before.found : now.getTime()
    others.set(workflow, { due, found })
    const own = scheduled.filter(({ id }) => id === workflow)
    if (now.getTime() - found <= (own.length > 0 ? replacedAfter : removedAfter)) return
    log.warn({ workflow, schedule, at }, 'a scheduled workflow was not started: no server has this schedule any longer')
    if (own.length > 0) return await addSchedules(db, platformRef, own, now)
    await db.deleteFrom('tenantry.workflow_schedules').where('tenant_id', '=', platformRef).where('workflow', '=', workflow)
      .where('schedule', '=', schedule).where('next_at', '<', new Date(at.getTime() + 1)).execute()
  }

  return {
    startDue,
    /** Checks every 10 seconds from now on. Returns a function that stops the checks, also within a running one. */
    watch (): () => Promise<void> {
      const end = repeat(async () => {
        await databaseTime(db).then(startDue)
          .catch((err: unknown) => log.debug({ err }, 'the schedules of workflows could not be read: retrying'))
        return pollMs
      })
      return async () => {
        isStopping = true
        await end()
      }
    }
  }
}

function textOf (schedule: Workflow['schedule']): string | undefined {
  const read = schedule === undefined ? undefined : parseSchedule(schedule)
  return read === undefined || 'reason' in read ? undefined : read.text
}
