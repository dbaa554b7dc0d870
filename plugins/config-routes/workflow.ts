/** Runs the workflow of a route: at once, or as a job. The response for a job holds the address of its status. */
import { isLongRequest } from '../../lib/compiler/request.js'
import type { CompiledRoute } from '../../lib/compiler/route.js'
import { type CompiledRouteWorkflow, describesResponse, workflowResult } from '../../lib/compiler/workflow.js'
import type { ResultForm } from '../../lib/expressions/result.js'
import type { Scope } from '../../lib/expressions/types.js'
import type { RouteReply } from '../../lib/http/route-reply.js'
import { tenantOrPlatform } from '../../lib/identity/tenant-ref.js'
import { parseResult } from '../../lib/json/parse.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import { inTurn, longResult, unrefused } from '../../lib/runtime/computing.js'
import type { RouteCall } from '../../lib/runtime/route-call.js'
import type { WorkflowStart } from '../../lib/runtime/services.js'
import { limitedUser, type ResourceLimits } from '../resource-limits/service.js'
import { completedBody, type InRequestParts, runInRequest } from '../workflows/in-request.js'
import { asRun } from '../workflows/service.js'

export interface WorkflowServing extends InRequestParts {
  readonly limits: ResourceLimits | null
}

/** Resolves with the body of the response as JSON text. */
export async function runRouteWorkflow (
  started: CompiledRouteWorkflow,
  start: WorkflowStart<RouteCall, RouteReply>,
  serving: WorkflowServing
): Promise<string> {
  const { request, scope: around } = start
  const scope = withInput(around, await inputOf(started, around))
  const user = request.auth?.sub === undefined ? null : limitedUser(request)
  if (started.async) return enqueue(started, serving, start, scope, user)
  return await asRun(serving.limits, user, async () => {
    const { id, result, form, scope: ended, length } = await runInRequest(started.workflow, scope, start, serving)
    const make = () => bodyOf(start.route, id, { text: result, form }, ended, length)
    const { transform, response } = start.route
    const isCopied = result.length + length >= longResult || isLongRequest(ended.headers)
    const mayTakeLong = transform !== null || (response !== null && isCopied)
    return mayTakeLong ? await inTurn({ worker: ended, length: result.length, turns: unrefused }, make) : make()
  })
}

async function inputOf ({ input, expansionGuard }: CompiledRouteWorkflow, scope: Scope): Promise<unknown> {
  expansionGuard?.(scope, 0)
  if (input === null) return scope.body
  if (!isLongRequest(scope.headers)) return input.evaluate(scope)
  return await inTurn({ worker: scope, length: 0, turns: unrefused }, () => input.evaluate(scope))
}

/** Members are listed, since a copy by `...` takes several times as long. */
function withInput (
  {
    body, params, query, headers, auth, tenant, secrets, results, files, fullAccess, payload, events = false, trace = null, depth,
    ip
  }: Scope,
  input: unknown
): Scope {
  return { body, params, query, headers, auth, tenant, secrets, results, files, fullAccess, payload, events, trace, depth, ip, input }
}

async function enqueue (
  { workflow }: CompiledRouteWorkflow,
  { workflows: runs }: WorkflowServing,
  { request, claim }: WorkflowStart<RouteCall, RouteReply>,
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
    request,
    claim
  })
  return JSON.stringify({ workflowId, status: 'queued', statusUrl })
}

function bodyOf (
  { transform, response, expansionGuards }: CompiledRoute,
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
  expansionGuards?.response?.(computed, transform === null ? text.length + length : Infinity)
  return response.serialize(computed)
}
