/** Runs asynchronous workflows: the handler of their jobs. Any process may continue a run that another has begun. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyBaseLogger } from 'fastify'
import { createWarned } from '../../lib/cache/warned.js'
import { createResultMemory, type HeldResults } from '../../lib/concurrency/result-memory.js'
import type { StoredError } from '../../lib/database/workflow-tables.js'
import { catalogue, isFailure, TenantryError } from '../../lib/errors.js'
import type { Scope } from '../../lib/expressions/types.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { traceIdOf } from '../../lib/log/trace-context.js'
import { optional } from '../../lib/plugin/define.js'
import { useSecrets } from '../../lib/runtime/secrets.js'
import { everyCompiled } from '../../lib/workflows/flow.js'
import type { CompiledWorkflow } from '../../lib/workflows/types.js'
import { HandedBack, type Job } from '../queue/index.js'
import { maxLost } from '../queue/store.js'
import { type Address, addressOf, type CompleteRun, type EndedRun } from './complete.js'
import { createDurableJournal } from './durable-journal.js'
import { Interrupted } from './journal.js'
import { noCaller } from './run-caller.js'
import { runWorkflow, TurnOver, visibleError } from './runner.js'
import { readDepth, readScope } from './serialization.js'
import { type RunParts, runTask } from './service.js'
import type { EarlierSteps, HeldRun, RunEnd, TakenRun } from './store.js'

/** Attempts without progress after which a run fails, since it crashes its processes or cannot be read */
const maxAttempts = 20

const turnMs = 30_000 // ms after which a run yields to others, at the end of a step
const noRoomMs = 1000 // before a run for whose results there is no room is handed back
const stepMs = 600_000 // ms for a step of the list, with its inner steps and attempts

const nothing: EarlierSteps = { outcomes: new Map(), sent: new Set() }
const endedProcesses: StoredError = {
  code: catalogue.internal.code,
  message: 'Two processes ended while they ran the same step, so the run is not retried'
}
const tooOften: StoredError = { code: catalogue.internal.code, message: 'The run was started too often without completing' }

export function createRunJob ({ app, store, documents, steps, callers }: RunParts, end: CompleteRun) {
  const { engine, tenants } = app
  const [cacheOf, integrationsOf] = [optional(app, 'cache'), optional(app, 'integrations')]
  const [secretsOf, webhooksOf] = [optional(app, 'secrets'), optional(app, 'webhooks')]
  const warned = createWarned()
  const source = () => ({ secrets: secretsOf(), warned })
  const running = new Map<HeldRun, AbortController>()
  const results = createResultMemory()

  /** Counts the results of the run. Without room it continues later, unless it is the tenant's first: that one always ends. */
  function hold (run: TakenRun): HeldResults {
    const held = results.hold(run.tenant)
    const requireRoom = () => {
      for (const { tenant, id } of running.keys()) {
        if (tenant !== run.tenant) continue
        if (id === run.id) return
        break
      }
      try {
        held.requireRoom()
      } catch (cause) {
        throw new NoRoom('other runs of the tenant keep too many results in memory', { cause })
      }
    }
    return { ...held, requireRoom }
  }

  async function attempted (
    run: TakenRun,
    attempt: number,
    held: HeldResults,
    signal: AbortSignal,
    log: FastifyBaseLogger
  ): Promise<EndedRun> {
    const { tenant: id } = run
    // Before its earlier results are read.
    held.requireRoom()
    const tenant = id === '' ? null : await tenants.get(id)
    if (id !== '' && (tenant === null || tenant.status === 'deleting')) throw new Interrupted('the tenant was deleted')
    const whole = await documents.stored(id, run.definition)
    const workflow = whole ?? await documents.stored(id, run.definition, false)
    if (workflow === null) return { end: failed(catalogue.schemaChanged), address: null, depth: readDepth(run) }
    const { scope, caller } = readScope(run, tenant, await useSecrets(source(), id, workflow, log))
    if (scope.trace) log = log.child({ traceId: traceIdOf(scope.trace.traceparent) })
    const ended = (end: RunEnd): EndedRun => ({
      end,
      address: addressFor(id, workflow, scope, log),
      depth: scope.depth ?? 0
    })
    if (whole === null) return ended(failed(catalogue.schemaChanged))
    if (tenant?.status === 'suspended') return ended(failed(catalogue.tenantSuspended))
    if (attempt > maxAttempts) return ended(failed(tooOften))

    // The first attempt has no earlier steps. From now on, writes of an earlier attempt are refused.
    const earlier = run.attempt === 1 ? nothing : await store.earlier(id, run.id)
    const [cache, webhooks] = [cacheOf(), webhooksOf()]
    // The process that wrote the rows may have ended before it cleared the cache.
    if (earlier.outcomes.size > 0) await cache?.invalidate(id, workflow.writes)
    const journal = createDurableJournal(engine, run, earlier, databaseSteps(workflow), signal)
    try {
      const events = workflow.writes.length > 0 && webhooks !== null && await webhooks.hasSubscribers(id)
      const { result } = await runWorkflow(workflow, { ...scope, events }, {
        journal,
        cache,
        integrations: integrationsOf(),
        steps,
        held,
        caller: workflow.usesTools ? callers.stored(caller ?? noCaller(id), { id: run.id, tenant, log }) : undefined,
        signal,
        log,
        stepMs,
        turnMs
      })
      return ended({ status: 'completed', result })
    } catch (error) {
      if (error instanceof Interrupted || signal.aborted || isFailure(error, 'databaseUnavailable')) throw error
      if (!(error instanceof TenantryError)) log.error({ err: error }, 'a workflow failed unexpectedly')
      return ended(failed(visibleError(error)))
    }
  }

  async function storedAddress (run: TakenRun, log: FastifyBaseLogger): Promise<Address | null> {
    const { tenant: id } = run
    const workflow = await documents.stored(id, run.definition, false)
    if (workflow === null || workflow.callback === null) return null
    const tenant = id === '' ? null : await tenants.get(id)
    const { scope } = readScope(run, tenant, await useSecrets(source(), id, workflow, log))
    return addressFor(id, workflow, scope, log)
  }

  /** Callers choose the values of the address, and the ids of their workflows. */
  function addressFor (tenant: Owner, { callback }: CompiledWorkflow, scope: Scope, log: FastifyBaseLogger): Address | null {
    return callback === null
      ? null
      : addressOf(callback, scope, (reason) => {
        log[warned.levelOf(tenant, 'callback', reason)](`the callback at the end of a workflow is not sent: ${reason}`)
      })
  }

  /** For the last attempt, since a callback that cannot be stored must not keep the run open. */
  async function endAnyway (run: TakenRun, ended: EndedRun, signal: AbortSignal, log: FastifyBaseLogger): Promise<void> {
    try {
      await end(run, ended, signal)
    } catch (error) {
      if (ended.address === null || signal.aborted || error instanceof Interrupted) throw error
      log.error({ err: error }, 'the callback at the end of a workflow is not sent: it cannot be stored')
      await end(run, { ...ended, address: null }, signal)
    }
  }

  return {
    /** Rejects if the run has not ended: the job is then tried again. */
    async handle ({ id, tenant, attempt, signal }: Pick<Job, 'id' | 'tenant' | 'attempt' | 'signal'>): Promise<void> {
      const run = await store.take(tenant, id)
      // The run has ended: another process finished it, or it was canceled.
      if (run === undefined) return
      const log = app.log.child({ task: runTask, workflowId: id, tenant })
      const canceled = new AbortController()
      running.set(run, canceled)
      const over = AbortSignal.any([signal, canceled.signal])
      const held = hold(run)
      try {
        const ended = await attempted(run, attempt, held, over, log).catch((error: unknown): EndedRun => {
          // Even the parts of the run cannot be read.
          if (attempt <= maxAttempts || over.aborted || error instanceof Interrupted) throw error
          log.error({ err: error }, 'a workflow was abandoned')
          return { end: failed(tooOften), address: null, depth: 0 }
        })
        await (attempt > maxAttempts ? endAnyway(run, ended, over, log) : end(run, ended, over))
      } catch (error) {
        held.release()
        if (error instanceof NoRoom) await sleep(noRoomMs, undefined, { signal: over }).catch(() => {})
        // A canceled run is not retried. If another attempt holds the run, only that attempt may mark the job as done.
        if (await store.isOpen(tenant, id).catch(() => true)) throw error instanceof TurnOver ? new HandedBack(error.message) : error
      } finally {
        held.release()
        running.delete(run)
      }
    },

    /** Ends the run as failed without running a step, after processes have died at the same step. */
    async setAside ({ id, tenant, lost, signal }: Pick<Job, 'id' | 'tenant' | 'lost' | 'signal'>): Promise<void> {
      const run = await store.take(tenant, id)
      if (run === undefined) return
      // If even reading the run crashed a process, it ends without its callback.
      const isReadable = lost <= maxLost
      const log = app.log.child({ task: runTask, workflowId: id, tenant })
      const address = isReadable ? await storedAddress(run, log) : null
      await endAnyway(run, { end: failed(endedProcesses), address, depth: isReadable ? readDepth(run) : 0 }, signal, log)
    },

    /** The tenants of the runs in this process. */
    tenants: (): ReadonlySet<Owner> => new Set(Array.from(running.keys(), ({ tenant }) => tenant)),

    /** Call it when runs of the tenant may have been canceled or deleted: ends their work in this process. */
    async check (tenant: Owner): Promise<void> {
      const own = [...running].filter(([run]) => run.tenant === tenant)
      if (own.length === 0) return
      const held = await store.heldOf(tenant, own.map(([run]) => run))
      for (const [{ id }, controller] of own) if (!held.has(id)) controller.abort(new Interrupted('the run was canceled or deleted'))
    }
  }
}

class NoRoom extends TurnOver {}

function failed ({ message, code }: StoredError): RunEnd {
  return { status: 'failed', error: { message, code } }
}

function databaseSteps ({ steps }: CompiledWorkflow): ReadonlySet<string> {
  return new Set([...everyCompiled(steps)].flatMap(({ kind, id }) => kind === 'database' ? [id] : []))
}
