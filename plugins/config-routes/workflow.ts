/** Runs the workflow of a route: at once, or as a job. The response for a job holds the address of its status. */
import type { CacheStore } from '../../lib/cache/store.js'
import type { CompiledRoute } from '../../lib/compiler/route.js'
import { type CompiledRouteWorkflow, describesResponse, workflowResult } from '../../lib/compiler/workflow.js'
import type { Engine } from '../../lib/database/engine.js'
import type { ResultForm } from '../../lib/expressions/types.js'
import type { Scope } from '../../lib/expressions/types.js'
import type { RouteReply } from '../../lib/http/route-reply.js'
import { tenantOrNone, tenantOrPlatform } from '../../lib/identity/tenant-ref.js'
import { parseResult } from '../../lib/json/parse.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import type { RouteCall } from '../../lib/runtime/route-call.js'
import type { WorkflowStart } from '../../lib/runtime/services.js'
import type { Integrations } from '../integrations/integrations.js'
import { limitedUser, type ResourceLimits } from '../resource-limits/service.js'
import { disconnectSignal, maxSyncMs } from '../workflows/in-request.js'
import { SyncJournal } from '../workflows/journal.js'
import { runWorkflow } from '../workflows/runner.js'
import type { WorkflowRuns } from '../workflows/service.js'

/** The parts of the app that workflows need. */
export interface WorkflowServing {
  readonly engine: Engine
  readonly cache: CacheStore | null
  readonly limits: ResourceLimits | null
  /** null without the plugin: then no route calls services. */
  readonly integrations: () => Integrations | null
  /** null without the plugin: then no workflow is asynchronous or has steps that other plugins run. */
  readonly workflows: WorkflowRuns | null
}

/** Resolves with the body of the response as JSON text. */
export async function runRouteWorkflow (
  started: CompiledRouteWorkflow,
  start: WorkflowStart<RouteCall, RouteReply>,
  serving: WorkflowServing
): Promise<string> {
  const { request, scope: around } = start
  started.copies?.(around, 0)
  const scope = withInput(around, started.input === null ? around.body : started.input.evaluate(around))
  const user = request.auth?.sub === undefined ? null : limitedUser(request)
  if (started.async) return enqueue(started, serving, request, scope, user)
  const taken = serving.limits?.take(user, oneRun)
  if (taken === undefined) return run(started, { ...start, scope }, serving)
  const { give } = await taken
  try {
    return await run(started, { ...start, scope }, serving)
  } catch (error) {
    await give()
    throw error
  }
}

/** Members are listed, since a copy by `...` takes several times as long. */
function withInput (
  { body, params, query, headers, auth, tenant, secrets, results, files, fullAccess, payload, events = false, trace = null }: Scope,
  input: unknown
): Scope {
  return { body, params, query, headers, auth, tenant, secrets, results, files, fullAccess, payload, events, trace, input }
}

/** The amount that one run uses of the limit. */
const oneRun = Object.freeze({ resource: 'workflow', metric: 'count', amount: 1 })

async function enqueue (
  { workflow }: CompiledRouteWorkflow,
  { workflows: runs }: WorkflowServing,
  request: RouteCall,
  scope: Scope,
  user: ReturnType<typeof limitedUser>
): Promise<string> {
  if (runs === null) throw new Error('a workflow is asynchronous, but the app has no plugin for asynchronous workflows')
  const { workflowId, statusUrl } = await runs.start({
    tenant: tenantOrPlatform(scope.tenant),
    user: request.auth?.sub ?? null,
    workflow,
    scope,
    limitedUser: user,
    request
  })
  return JSON.stringify({ workflowId, status: 'queued', statusUrl })
}

async function run (
  { workflow }: CompiledRouteWorkflow,
  { route, request, reply, scope, placeOf }: WorkflowStart<RouteCall, RouteReply>,
  { engine, cache, integrations, workflows }: WorkflowServing
): Promise<string> {
  const journal = new SyncJournal(workflow, engine, tenantOrNone(scope.tenant))
  const { result, form, scope: ended, length } = await runWorkflow(workflow, scope, {
    journal,
    cache,
    integrations: integrations(),
    steps: workflows?.steps ?? {},
    caller: workflows?.callers.within(request, journal.runId),
    signal: workflow.waits ? disconnectSignal(reply) : never,
    log: request.log,
    placeOf,
    timeoutMs: maxSyncMs
  })
  return bodyOf(route, journal.runId, { text: result, form }, ended, length)
}

const never = new AbortController().signal

function bodyOf (
  { transform, response, copies }: CompiledRoute,
  id: string,
  { text, form }: { readonly text: string, readonly form: ResultForm },
  scope: Scope,
  length: number
): string {
  if (transform === null && response === null) return completedBody(id, text)
  const parsed: unknown = parseResult(text)
  const result = transform === null ? parsed : transform.apply(parsed, scope, form)
  if (response === null) return completedBody(id, stringifyJson(result))
  if (response.kind === 'schema') {
    return describesResponse(response.schema)
      ? response.serialize({ workflowId: id, status: 'completed', result }, 'record')
      : completedBody(id, response.serialize(result, form))
  }
  const computed: Scope = { ...scope, results: { [workflowResult]: result } }
  copies?.response?.(computed, transform === null ? text.length + length : Infinity)
  return response.serialize(computed)
}

function completedBody (id: string, result: string): string {
  return `{"workflowId":"${id}","status":"completed","result":${result}}`
}
