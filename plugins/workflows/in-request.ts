/** Runs a workflow within its request; stores nothing. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import type { CacheStore } from '../../lib/cache/store.js'
import { createWarned } from '../../lib/cache/warned.js'
import { createYielder } from '../../lib/concurrency/event-loop-yielder.js'
import type { Engine } from '../../lib/database/engine.js'
import type { IdempotencyClaim } from '../../lib/database/idempotency-claim.js'
import { readAs } from '../../lib/document/reader.js'
import type { PlaceOf } from '../../lib/expressions/condition.js'
import type { Scope } from '../../lib/expressions/types.js'
import { leftOf } from '../../lib/http/caller-left.js'
import type { RouteReply } from '../../lib/http/route-reply.js'
import { sendText } from '../../lib/http/send-text.js'
import { noTenant, type Owner, tenantOrPlatform } from '../../lib/identity/tenant-ref.js'
import { optional } from '../../lib/plugin/define.js'
import type { RouteCall } from '../../lib/runtime/route-call.js'
import { useSecrets } from '../../lib/runtime/secrets.js'
import { ClosedObject } from '../../lib/schema/annotations.js'
import { FaultList } from '../../lib/schema/faults.js'
import { Workflow } from '../../lib/schema/workflow.js'
import { requireBounds } from '../../lib/tenant-document/bounds.js'
import { readingOf, refuse } from '../../lib/tenant-document/read.js'
import type { CompiledWorkflow, WorkflowDefinition } from '../../lib/workflows/index.js'
import type { Integrations } from '../integrations/integrations.js'
import { limitedUser } from '../resource-limits/service.js'
import { type FindsTenants, requireSameLife } from '../tenancy/tenant.js'
import { SyncJournal } from './journal.js'
import { runWorkflow, type WorkflowResult } from './runner.js'
import { definitionText } from './serialization.js'
import { asRun, type WorkflowRuns } from './service.js'

export interface InRequestParts {
  readonly engine: Engine
  /** null without the plugin: then no request has a tenant. */
  readonly tenants: FindsTenants | null
  readonly cache: CacheStore | null
  /** null without the plugin: then no workflow calls services. */
  readonly integrations: () => Integrations | null
  /** null without the plugin: then no workflow is asynchronous or has steps that other plugins run. */
  readonly workflows: WorkflowRuns | null
}

interface StartInRequest {
  readonly request: RouteCall
  readonly reply: RouteReply
  readonly placeOf?: PlaceOf
  /** The claim of the request's idempotency key. */
  readonly claim?: IdempotencyClaim | undefined
  /** Bytes of a workflow that is compiled for this run alone. */
  readonly compiledBytes?: number
}

/** Runs the workflow, and resolves with its result and the id of the run. */
export async function runInRequest (
  workflow: CompiledWorkflow,
  scope: Scope,
  { request, reply, placeOf, claim, compiledBytes = 0 }: StartInRequest,
  { engine, tenants, cache, integrations, workflows }: InRequestParts
): Promise<WorkflowResult & { readonly id: string }> {
  const own = scope.tenant
  const tenant = own?.id ?? noTenant
  const journal = new SyncJournal(workflow.timed, engine, { tenant }, claim)
  const held = engine.resultMemory.hold(tenant)
  held.text(runBytes + compiledBytes)
  // It is parsed. Bodies without this header count in plugins/responses only.
  held.value(Number(request.headers['content-length'] ?? 0))
  try {
    const result = await runWorkflow(workflow, scope, {
      journal,
      cache,
      integrations: integrations(),
      steps: workflows?.steps ?? {},
      held,
      caller: workflows?.callers.within(request, journal.runId),
      signal: workflow.waits ? leftOf(reply) : never,
      requireTenant: tenants === null || own === null ? undefined : () => requireSameLife(tenants, own),
      log: request.log,
      placeOf,
      timeoutMs: maxSyncMs
    })
    return { ...result, id: journal.runId }
  } finally {
    held.release()
  }
}

const compiledSize = 64 // bytes for each character of a definition
const runBytes = 32_768 // of a run without a body and results, with its request
const maxSyncMs = 300_000 // for a run within a request, after which no further step begins
const never = new AbortController().signal

export function createInRequest (app: FastifyInstance) {
  const [secretsOf, limitsOf, webhooksOf] = [optional(app, 'secrets'), optional(app, 'resourceLimits'), optional(app, 'webhooks')]
  const [cacheOf, integrationsOf] = [optional(app, 'cache'), optional(app, 'integrations')]
  const warned = createWarned()
  /** Responds with the result. `isOwn`: the workflow was compiled for this request alone. */
  return async (
    workflow: CompiledWorkflow,
    scope: Scope,
    request: FastifyRequest,
    reply: FastifyReply,
    isOwn: boolean
  ): Promise<FastifyReply> => {
    const tenant = tenantOrPlatform(request.tenant)
    const secrets = await useSecrets({ secrets: secretsOf(), warned }, tenant, workflow, request.log)
    const compiledBytes = isOwn ? definitionText(workflow).length * compiledSize : 0
    const { engine, tenants, workflows } = app
    const parts: InRequestParts = { engine, tenants, cache: cacheOf(), integrations: integrationsOf, workflows }
    const webhooks = webhooksOf()
    const claim = request.idempotency ?? undefined
    return await asRun(limitsOf(), limitedUser(request), async () => {
      const events = workflow.writes.length > 0 && webhooks !== null && await webhooks.hasSubscribers(tenant)
      try {
        const { id, result } = await runInRequest(workflow, { ...scope, secrets, events }, { request, reply, claim, compiledBytes }, parts)
        return await sendText(reply, completedBody(id, result))
      } finally {
        // The steps before the failed one have already taken effect.
        if (events) webhooks?.wake()
      }
    })
  }
}

/** The body of the response to a completed run; `result` is JSON. */
export function completedBody (id: string, result: string): string {
  return `{"workflowId":"${id}","status":"completed","result":${result}}`
}

const Inline = ClosedObject({
  id: Type.Optional(Workflow.properties.id),
  steps: Workflow.properties.steps,
  webhookOnComplete: Workflow.properties.webhookOnComplete
}, { description: 'The workflow.' })

const secretTemplate = /^\{\{\s*secret:[^{}|]+\}\}$/

/** Throws `configInvalid` with all faults. */
export async function readInline (
  tenant: Owner,
  sent: object,
  compile: (definition: WorkflowDefinition, faults: FaultList) => Promise<CompiledWorkflow | null>
): Promise<CompiledWorkflow> {
  const faults = new FaultList()
  const yielder = createYielder(tenant)
  try {
    await requireBounds(sent, '/body', yielder)
    const read = readAs(Inline, sent, '/body', readingOf(faults))
    faults.throwIfAny()
    if (read === undefined) throw new Error('a workflow could not be read, but has no fault')
    const { webhookOnComplete: callback } = read
    // The text is stored in the row of the run.
    if (typeof callback === 'object' && callback.secret !== undefined && !secretTemplate.test(callback.secret)) {
      faults.add('/body/webhookOnComplete/secret', 'expected a secret of the tenant, as {{secret:KEY}}')
    }
    const workflow = await compile({ named: true, ...read }, faults)
    faults.throwIfAny()
    if (workflow === null) throw new Error('a workflow could not be compiled, but has no fault')
    return workflow
  } catch (error) {
    return refuse(error)
  } finally {
    yielder.done()
  }
}
