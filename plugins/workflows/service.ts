/** `app.workflows`: asynchronous runs of workflows. */
import type { FastifyInstance } from 'fastify'
import { type Actor, writeAudit } from '../../lib/database/audit.js'
import { type IdempotencyClaim, markClaim } from '../../lib/database/idempotency-claim.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { failure } from '../../lib/errors.js'
import { noScope } from '../../lib/expressions/no-scope.js'
import type { Scope } from '../../lib/expressions/types.js'
import type { Page } from '../../lib/http/page.js'
import { type Owner, platformRef } from '../../lib/identity/tenant-ref.js'
import { uuidForm } from '../../lib/identity/uuid.js'
import { optional } from '../../lib/plugin/define.js'
import type { RouteCall } from '../../lib/runtime/route-call.js'
import type { StepRunners } from '../../lib/workflows/service-steps.js'
import type { CompiledWorkflow } from '../../lib/workflows/types.js'
import type { LimitedUser } from '../resource-limits/rules.js'
import type { ResourceLimits } from '../resource-limits/service.js'
import type { Documents } from './documents.js'
import type { RunCallers } from './run-caller.js'
import { type DueTime, inLockOrder, passDue } from './schedules.js'
import { definitionText, scopeText } from './serialization.js'
import { createStatusToken } from './status-token.js'
import type { ListedRun, NewStoredRun, ReadRun, RunStatus, RunStore, TokenViewer, Viewer } from './store.js'

/** The name of the job that runs a workflow. */
export const runTask = 'workflow.run'

/** The amount that one run uses of its user's limit. */
const oneRun = Object.freeze({ resource: 'workflow', metric: 'count', amount: 1 })

/** Counts one run against the user's limit, and gives it back if the work fails. Throws `resourceLimit`. */
export async function asRun<Result> (
  limits: ResourceLimits | null,
  user: LimitedUser | null,
  work: () => Promise<Result>
): Promise<Result> {
  const taken = await limits?.take(user, oneRun)
  try {
    return await work()
  } catch (error) {
    await taken?.give()
    throw error
  }
}

export interface NewRun {
  /** The tenant of the run; empty for the platform. */
  readonly tenant: Owner
  /** The `sub` of the caller; null for a run without one, such as that of a webhook. */
  readonly user: string | null
  readonly workflow: CompiledWorkflow
  /** The values that the workflow reads are stored, but no secrets and no headers with credentials. */
  readonly scope: Scope
  /** The user whose limit of workflows the run counts against. Default: none. */
  readonly limitedUser?: LimitedUser | null | undefined
  /** The author for the audit log; runs of routes' own workflows are not audited. */
  readonly actor?: Actor | undefined
  /** The request that starts the run. Steps call tools with its rights. Default: none; steps then call open routes only. */
  readonly request?: RouteCall | undefined
  /** The idempotency key of the request, unless the actor has it. */
  readonly claim?: IdempotencyClaim | undefined
}

/** The values of a run that a program starts. */
export interface NamedRun {
  /** Read as `{{input.field}}`. Default: null. */
  readonly input?: unknown
  /** The `sub` of the user who can see the run. Default: null; the path of the status then has a token, and is read with `X-Tenant-ID`. */
  readonly user?: string | null | undefined
}

interface StartedRun {
  readonly workflowId: string
  /**
   * The path of the status. For a run without a user it contains a token, which is not stored. Every caller with the path can then read
   * the run's status.
   */
  readonly statusUrl: string
}

export interface WorkflowRuns {
  /**
   * Resolves when the run is durable: it will end, even if this process crashes. Throws `bodyTooLarge` if the values that it reads of
   * the request exceed 2 MiB, and `queueFull`. Throws `resourceLimit` if the user's limit has no room, and `tenantUnknown` if the
   * tenant does not exist or is being deleted.
   */
  start(run: NewRun): Promise<StartedRun>
  /**
   * Starts the tenant's workflow with this id, or else the platform's, for a program. It needs no permissions, and its steps call open
   * routes only. An empty tenant is the platform. Rejects like `start`, and with `notFound`, `schemaChanged` if the workflow no longer fits
   * the tables, and `tenantRequired` if it needs a tenant.
   */
  startNamed(tenant: Owner, id: string, run?: NamedRun): Promise<StartedRun>
  /** Throws `notFound` for a run that the viewer may not see. */
  read(viewer: Viewer | TokenViewer, workflowId: string): Promise<ReadRun>
  /** Newest first. */
  list(viewer: Viewer, status: RunStatus | undefined, page: Page): Promise<{ data: ListedRun[], total: number }>
  /** Cancels the run: it writes nothing more, and running steps are ended. Throws `notFound`, and `stateConflict` if it has ended. */
  cancel(viewer: Viewer, workflowId: string, actor: Actor): Promise<void>
  /** Starts the run of a scheduled time, and moves the schedule on. Rejects with `NotDue` if another process already did so. */
  startAt(due: DueTime, workflow: CompiledWorkflow, input: unknown): Promise<void>
  readonly documents: Documents
  readonly steps: StepRunners
  readonly callers: RunCallers
}

export interface RunParts extends Pick<WorkflowRuns, 'documents' | 'steps' | 'callers'> {
  readonly app: FastifyInstance
  readonly store: RunStore
}

/** The data of a run's job. */
interface StartRow extends Omit<NewStoredRun, 'id' | 'tenant'> {
  readonly actor: Actor | undefined
  readonly claim?: IdempotencyClaim | undefined
  /** For a run that a schedule starts. */
  readonly due?: DueTime
}

/** The scope of a run without a request. */
function scopeOf (input: unknown): Scope {
  return { ...noScope, body: null, results: {}, input }
}

/** @param prefix of the endpoints' paths */
export function createWorkflowRuns ({ app, store, documents, steps, callers }: RunParts, prefix: string): WorkflowRuns {
  const limits = optional(app, 'resourceLimits')
  // The id of its job is that of the run.
  const sendRow = app.queue.sendWith<StartRow>(runTask, async (transaction, sent) => {
    await store.insert(transaction, sent.map(({ id, tenant, row }) => ({ ...row, id, tenant })))
    const scheduled = sent.flatMap(({ id, row: { due } }) => due === undefined ? [] : [{ id, due }])
    scheduled.sort((one, other) => inLockOrder(one.due, other.due))
    for (const { id, due } of scheduled) await passDue(transaction, due, id)
    for (const { row: { actor, claim = actor?.claim } } of sent) {
      if (claim !== undefined) await markClaim<SystemTables>(transaction, claim)
    }
    const at = new Date()
    const entries = sent.flatMap(({ id, tenant, row: { actor, workflow } }) =>
      actor === undefined ? [] : [{ tenant, action: 'workflow.run', actor, target: id, details: { workflow }, at } as const]
    )
    if (entries.length > 0) await writeAudit(transaction, ...entries)
  })

  async function send (tenant: Owner, workflow: CompiledWorkflow, own: Omit<StartRow, 'workflow' | 'definition'>): Promise<string> {
    const row = { ...own, workflow: workflow.id, definition: definitionText(workflow) }
    const id = await sendRow({ tenant, data: {} }, row, row.definition.length + row.scope.length)
    if (id === null) throw new Error('the job of a run has no key')
    return id
  }

  async function start ({ tenant, user, workflow, scope, limitedUser = null, actor, request, claim }: NewRun): Promise<StartedRun> {
    const status = user === null ? createStatusToken() : undefined
    const caller = request === undefined || !workflow.usesTools ? undefined : await callers.store(request)
    const own = { user, scope: scopeText(workflow, scope, caller), tokenHash: status?.hash ?? null, actor, claim }
    const id = await asRun(limits(), limitedUser, () => send(tenant, workflow, own))
    const statusUrl = `${prefix}/agent/workflow/status?workflowId=${id}`
    return { workflowId: id, statusUrl: status === undefined ? statusUrl : `${statusUrl}&token=${status.token}` }
  }

  return {
    documents,
    steps,
    callers,
    start,

    async startNamed (tenant, id, { input = null, user = null } = {}) {
      const named = await documents.find(tenant, id)
      if (named === undefined) throw failure('notFound', { message: `There is no workflow "${id}"` })
      const workflow = named.compiled()
      if (workflow === null) throw failure('schemaChanged')
      if (workflow.tenantScoped && tenant === platformRef) throw failure('tenantRequired')
      return await start({ tenant, user, workflow, scope: scopeOf(input) })
    },

    async startAt (due, workflow, input) {
      const scope = scopeText(workflow, scopeOf(input))
      await send(due.tenant, workflow, { user: null, scope, tokenHash: null, actor: undefined, due })
    },

    async read (viewer, workflowId) {
      const run = uuidForm.test(workflowId) ? await store.read(viewer, workflowId) : undefined
      if (run === undefined) throw failure('notFound')
      return run
    },

    list: store.list,

    async cancel (viewer, workflowId, actor) {
      const { tenant } = viewer
      if (!uuidForm.test(workflowId)) throw failure('notFound')
      // Notifies the process that runs it.
      const canceled = await app.events.change({ topic: 'workflows', tenant }, async (transaction) => {
        const done = await store.cancel(transaction, viewer, workflowId)
        if (done) await writeAudit(transaction, { tenant, action: 'workflow.cancel', actor, target: workflowId, at: new Date() })
        return done
      })
      if (canceled) return
      const status = await store.status(viewer, workflowId)
      if (status === undefined) throw failure('notFound')
      throw failure('stateConflict', { message: `The run is ${status}: it has ended`, extras: { status } })
    }
  }
}
