/** Starts workflows at their scheduled times. All processes check; the first to write a run starts it. */
import type { FastifyBaseLogger } from 'fastify'
import type { Kysely, Transaction } from 'kysely'
import { isOutage } from '../../lib/database/failures.js'
import { tenantColumn } from '../../lib/database/sql.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { TenantryError } from '../../lib/errors.js'
import { type Owner, platformRef } from '../../lib/identity/tenant-ref.js'
import type { Workflow } from '../../lib/schema/workflow.js'
import { parseSchedule } from '../../lib/time/schedule.js'
import { saveSchedules } from '../../lib/workflows/schedule-rows.js'
import type { CompiledWorkflow } from '../../lib/workflows/types.js'
import type { Tenants } from '../tenancy/index.js'
import type { Documents } from './documents.js'
import type { RunStore } from './store.js'

const maxDue = 100 // per check
const maxStale = 1000
const pollMs = 10_000

/** A time of a schedule. */
export interface DueTime {
  readonly tenant: Owner
  readonly workflow: string
  readonly at: Date
  /** The time after it. */
  readonly next: Date
}

/** Another process has started this run, or the schedule has changed. */
export class NotDue extends Error {
  override readonly name = 'NotDue'
}

/** Moves a schedule on to its next time. Throws `NotDue` unless it is at this time, so that only one process succeeds. */
export async function passDue (
  transaction: Kysely<SystemTables> | Transaction<SystemTables>,
  { tenant, workflow, at, next }: DueTime,
  run?: string
): Promise<void> {
  // PostgreSQL's times have microseconds.
  const { numUpdatedRows } = await transaction.updateTable('tenantry.workflow_schedules').set({
    next_at: next,
    ...run !== undefined && { last_run: run }
  })
    .where('tenant_id', '=', tenant).where('workflow', '=', workflow).where('next_at', '<', new Date(at.getTime() + 1)).executeTakeFirst()
  if (numUpdatedRows === 0n) throw new NotDue('the schedule is at another time')
}

export interface SchedulesParts {
  readonly db: Kysely<SystemTables>
  readonly store: RunStore
  readonly documents: Documents
  readonly tenants: Tenants
  /** The schedules of the platform's document. */
  readonly workflows: readonly Workflow[]
  /** Writes a run with `passDue`, in one transaction. */
  readonly start: (due: DueTime, workflow: CompiledWorkflow, input: unknown) => Promise<void>
  readonly log: FastifyBaseLogger
}

export type Schedules = ReturnType<typeof createSchedules>

interface Row {
  readonly tenant: Owner
  readonly workflow: string
  readonly schedule: string
  readonly at: Date
  readonly lastRun: string | null
}

/** The result for a due time. A stale one stays due. */
type StartResult = 'started' | 'passed' | 'stale'

export function createSchedules ({ db, store, documents, tenants, workflows, start, log }: SchedulesParts) {
  let saved = false

  /** Starts due runs and resolves with their number. Of several missed times, only the last counts. */
  async function startDue (now: Date): Promise<number> {
    if (!saved) await saveSchedules(db, platformRef, workflows, now)
    saved = true
    let started = 0
    // Stale times must not delay the others: they stay due, since no loaded document has them.
    for (let stale = 0, more = true; more && stale < maxStale;) {
      const rows = await dueRows(now, stale)
      more = rows.length === maxDue
      for (const row of rows) {
        const done = await startOne(row, now).catch((error: unknown) => failed(row, error))
        if (done === 'started') started++
        if (done === 'stale') stale++
      }
    }
    return started
  }

  function dueRows (now: Date, offset: number): Promise<Row[]> {
    return db.selectFrom('tenantry.workflow_schedules').select([
      tenantColumn, 'workflow', 'schedule', 'next_at as at', 'last_run as lastRun'
    ])
      .where('next_at', '<=', now).orderBy('next_at').orderBy('tenant_id').orderBy('workflow').limit(maxDue).offset(offset).execute()
  }

  function failed ({ tenant, workflow }: Row, error: unknown): StartResult {
    if (isOutage(error)) throw error
    if (error instanceof NotDue) return 'passed'
    log.error({ err: error, tenant, workflow }, 'a scheduled workflow could not be started; retrying')
    return 'stale'
  }

  async function startOne ({ tenant, workflow: id, schedule, at, lastRun }: Row, now: Date): Promise<StartResult> {
    const named = await documents.find(tenant, id)
    const read = named?.schedule === undefined ? undefined : parseSchedule(named.schedule)
    // The row may belong to another version of the document, which another process has loaded.
    if (named === undefined || read === undefined || 'reason' in read || read.text !== schedule) return 'stale'
    const next = read.next(now)
    if (next === null) return 'stale'
    const due: DueTime = { tenant, workflow: id, at, next }
    const skip = async (reason: string): Promise<StartResult> => {
      await passDue(db, due)
      log.warn({ tenant, workflow: id, at }, `a scheduled workflow was not started: ${reason}`)
      return 'passed'
    }
    const found = tenant === platformRef ? null : await tenants.get(tenant)
    if (tenant !== platformRef && found?.status !== 'active') return skip('the tenant is suspended or was deleted')
    if (lastRun !== null && await store.isOpen(tenant, lastRun)) return skip('the previous run has not ended')
    const workflow = named.compiled()
    if (workflow === null) return skip('the database no longer has the tables or columns of the workflow')
    try {
      await start(due, workflow, named.schedule?.input ?? {})
      return 'started'
    } catch (error) {
      const again: boolean = isOutage(error)
      if (again || !(error instanceof TenantryError)) throw error
      return skip(error.message)
    }
  }

  return {
    startDue,
    /** Checks every 10 seconds from now on. Returns a function that stops the checks and waits for a running one. */
    watch (): () => Promise<void> {
      let ended = false
      let timer: NodeJS.Timeout | undefined
      let reading: Promise<unknown> = Promise.resolve()
      const poll = (): void => {
        reading = startDue(new Date()).catch((err: unknown) =>
          log.debug({ err }, 'the schedules of workflows could not be read: retrying')
        ).finally(() => {
          if (!ended) timer = setTimeout(poll, pollMs).unref()
        })
      }
      poll()
      return async () => {
        ended = true
        clearTimeout(timer)
        await reading
      }
    }
  }
}
