/** The endpoints of workflows, and their schemas. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { callbackRequiresAsync } from '../../lib/compiler/workflow.js'
import { failure } from '../../lib/errors.js'
import { noScope } from '../../lib/expressions/no-scope.js'
import type { Scope } from '../../lib/expressions/types.js'
import { callerErrors } from '../../lib/http/error-schemas.js'
import { ListOf, pageIn, pageOf, pageQuery } from '../../lib/http/page.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { OrNull, Time } from '../../lib/http/schemas.js'
import { sendText } from '../../lib/http/send-text.js'
import { platformRef, tenantOrPlatform } from '../../lib/identity/tenant-ref.js'
import { parseJson } from '../../lib/json/parse.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import { traceOf } from '../../lib/log/trace-context.js'
import { callerHasFullAccess } from '../../lib/runtime/route-request.js'
import { ClosedObject, Optional } from '../../lib/schema/annotations.js'
import { invalidInput } from '../../lib/validation/detail.js'
import { named } from '../../lib/validation/named-schema.js'
import { everyStep } from '../../lib/workflows/flow.js'
import type { CompiledWorkflow } from '../../lib/workflows/index.js'
import { callerOf, hasPermission, requirePermissions } from '../auth/access.js'
import { actorOf } from '../auth/actor.js'
import { limitedUser } from '../resource-limits/service.js'
import { tenantOf } from '../tenancy/required.js'
import { createInRequest, readInline } from './in-request.js'
import { readDefinition } from './serialization.js'
import { tokenPattern } from './status-token.js'
import { type ListedRun, maxCounted, type ReadRun, runStatuses, type StoredStep, type TokenViewer, type Viewer } from './store.js'

const RunId = Type.String({ format: 'uuid' })
const WorkflowId = Type.String({ format: 'uuid', description: 'The id of the run, as returned when it was started.' })
const RunError = named(
  'WorkflowError',
  Type.Optional(Type.Object({ message: Type.String(), code: Type.String() }, { description: 'The reason for the failure.' }))
)
const Status = Type.Enum([...runStatuses])

const StepStatus = named(
  'WorkflowStep',
  Type.Object({
    id: Type.String(),
    status: Type.Enum(['pending', 'running', 'completed', 'failed', 'skipped', 'canceled'], {
      description: 'The status of the step. `pending`: it has not started.'
    }),
    startedAt: OrNull(Time()),
    finishedAt: OrNull(Time()),
    error: RunError
  })
)
const listedRun = {
  workflowId: RunId,
  workflow: OrNull(Type.String(), 'The id of the workflow; null if it has none.'),
  status: Status,
  error: RunError,
  createdAt: Time(),
  finishedAt: OrNull(Time())
}
const RunStatus = named(
  'WorkflowRunStatus',
  Type.Object({
    ...listedRun,
    steps: Type.Array(StepStatus, { description: 'All steps, in the order of their declaration.' }),
    result: Optional.Unknown('The result of a completed run: the result of the last executed step.')
  })
)
const Run = named('WorkflowRun', Type.Object(listedRun))
const Completed = named(
  'CompletedWorkflow',
  Type.Object({
    workflowId: RunId,
    status: Type.Literal('completed'),
    result: Type.Unknown({ description: 'The result of the last executed step.' })
  })
)
const Queued = named(
  'QueuedWorkflow',
  Type.Object({
    workflowId: RunId,
    status: Type.Literal('queued'),
    statusUrl: Type.String({ description: "The path of the run's status." })
  })
)
const Canceled = Type.Object({ workflowId: RunId, status: Type.Literal('canceled') })
const ListedQuery = ClosedObject(pageQuery('Workflows'))
const Listed = ListOf(Type.Object({
  id: Type.String({ description: 'The id of the workflow, for `ref`.' }),
  source: Type.Enum(['tenant', 'platform'], { description: "The document that declares the workflow: the tenant's or the platform's." }),
  steps: Type.Integer({ description: 'The number of steps.' })
}))

const Id = ClosedObject({ workflowId: WorkflowId })
const StatusQuery = ClosedObject({
  workflowId: WorkflowId,
  token: Optional.String(
    'The token from the `statusUrl`, for callers without credentials. It gives access to this run only.',
    { pattern: tokenPattern, expected: 'the token of a `statusUrl`' }
  )
})
const RunsQuery = ClosedObject({ status: Type.Optional(Status), ...pageQuery('Runs', maxCounted) })
const Async = Optional.Boolean('If false, the workflow runs within the request, and the response has its result. Default: true.')
const Input = Optional.Unknown('The input of the workflow, read as `{{input.field}}`.')
const nameForm = { pattern: '^[A-Za-z0-9_-]{1,64}$', expected: '1 to 64 of A-Z a-z 0-9 _ -' }
const NamedBody = ClosedObject({
  ref: Type.String({ ...nameForm, description: 'The id of a workflow of the tenant, or else of the platform.' }),
  input: Input,
  async: Async
})
const InlineBody = ClosedObject({
  id: Optional.String('The name shown in the list of runs.', nameForm),
  steps: Type.Array(Type.Object({}, { additionalProperties: true }), {
    minItems: 1,
    maxItems: 100,
    description: 'The steps, as in `workflows` of a document.'
  }),
  input: Input,
  async: Async,
  webhookOnComplete: Optional.Unknown(
    'The URL that is called when the run ends: a URL, or `{url, secret}` with the secret as `{{secret:KEY}}`.'
  )
})

const tags = ['Workflows']
const config = { access: 'user' } as const
const runErrors = callerErrors(402, 409, 413, 422, 424, 502, 504)

/** @param dashboardPermission of the document's `tenancy` */
export function workflowRoutes (app: FastifyGroup, dashboardPermission: string | undefined): void {
  const { workflows } = app
  const { documents } = workflows
  const inRequest = createInRequest(app)

  async function run (
    workflow: CompiledWorkflow,
    input: unknown,
    isAsync: boolean,
    request: FastifyRequest,
    reply: FastifyReply,
    isOwn = false
  ): Promise<FastifyReply> {
    const tenant = tenantOrPlatform(request.tenant)
    if (workflow.tenantScoped && tenant === platformRef) throw failure('tenantRequired')
    const scope = scopeOf(request, input, await callerHasFullAccess(request, dashboardPermission, { hasPermission }))
    if (!isAsync) return await inRequest(workflow, scope, request, reply, isOwn)
    const { workflowId, statusUrl } = await workflows.start({
      tenant,
      user: callerOf(request).sub,
      workflow,
      scope,
      limitedUser: limitedUser(request),
      actor: actorOf(request),
      request
    })
    return await reply.code(202).send({ workflowId, status: 'queued', statusUrl })
  }

  app.post('/agent/workflow', {
    config: { access: 'tenant-admin', permission: 'config:write', idempotency: 'encrypted' },
    schema: {
      tags,
      summary: 'Run a workflow sent in the body',
      description:
        "The steps are subject to the rules of the tenant's own document and can use its connectors. Steps that read a secret, in a template or in an expression, also require the permission `secrets:write`.",
      body: InlineBody,
      response: { 200: Completed, 202: Queued, ...runErrors }
    }
  }, async (request, reply) => {
    const tenant = tenantOf(request)
    const { input, async: isAsync = true, ...sent } = request.body
    if (!isAsync && sent.webhookOnComplete !== undefined) throw invalidInput('/body/webhookOnComplete', callbackRequiresAsync, 'async')
    const workflow = await readInline(tenant, sent, (definition, faults) => documents.own(tenant, definition, '/body', faults))
    if (workflow.secrets.length > 0 && !await hasPermission(request, 'secrets:write')) {
      throw failure('forbidden', { message: 'Steps that read a secret also require the permission secrets:write' })
    }
    return await run(workflow, input, isAsync, request, reply, true)
  })

  app.post('/agent/workflow/run', {
    config: { ...config, idempotency: 'encrypted' },
    schema: {
      tags,
      summary: 'Run a workflow by its name',
      body: NamedBody,
      response: { 200: Completed, 202: Queued, ...runErrors }
    }
  }, async (request, reply) => {
    const { ref, input, async: isAsync = true } = request.body
    const named = await documents.find(tenantOrPlatform(request.tenant), ref)
    if (named === undefined) throw failure('notFound', { message: `There is no workflow "${ref}"` })
    await requirePermissions(request, named.requiredPermissions)
    const workflow = named.compiled()
    if (workflow === null) throw failure('schemaChanged')
    return await run(workflow, input, isAsync, request, reply)
  })

  app.get('/agent/workflow/status', {
    config: { access: 'open' },
    // A 401 must come before faults of the query.
    preValidation: async (request) => {
      if (request.query.token === undefined) callerOf(request)
    },
    schema: {
      tags,
      summary: 'Retrieve the status of a run',
      description:
        'Users can access their own runs, administrators all runs of their tenant. Without credentials the `token` of the `statusUrl` gives access to its run, with the same `X-Tenant-ID` as the request that started it.',
      querystring: StatusQuery,
      response: { 200: RunStatus, ...callerErrors() }
    }
  }, async (request, reply) =>
    sendText(reply, stringifyJson(statusOf(await workflows.read(statusViewerOf(request), request.query.workflowId)))))

  app.get('/agent/workflow/runs', {
    config,
    schema: {
      tags,
      summary: 'List runs, newest first',
      description:
        `Lists the runs of the caller; for administrators, all runs of their tenant. Runs are kept for 30 days. \`total\` counts up to ${maxCounted}.`,
      querystring: RunsQuery,
      response: { 200: ListOf(Run), ...callerErrors() }
    }
  }, async (request) => {
    const page = pageOf(request)
    const { data, total } = await workflows.list(viewerOf(request), request.query.status, page)
    return { data: data.map(listed), pagination: { ...page, total } }
  })

  app.post('/agent/workflow/cancel', {
    config,
    schema: {
      tags,
      summary: 'Cancel a run',
      description: 'Effects of completed steps are not undone. No further step starts.',
      body: Id,
      response: { 200: Canceled, ...callerErrors(409) }
    }
  }, async (request) => {
    const { workflowId } = request.body
    await workflows.cancel(viewerOf(request), workflowId, actorOf(request))
    return { workflowId, status: 'canceled' as const }
  })

  app.get('/agent/workflows', {
    config,
    schema: { tags, summary: 'List workflows', querystring: ListedQuery, response: { 200: Listed, ...callerErrors() } }
  }, async (request) => pageIn(await documents.list(tenantOrPlatform(request.tenant)), pageOf(request)))
}

/** Administrators see all runs of their tenant, or of the platform. Other users see their own. */
function viewerOf (request: FastifyRequest): Viewer {
  const { role, sub } = callerOf(request)
  return { tenant: tenantOrPlatform(request.tenant), user: role === 'admin' ? undefined : sub }
}

/** If a token is sent, only the token counts: a user then sees no more than a caller without credentials. */
function statusViewerOf (request: FastifyRequest & { readonly query: Static<typeof StatusQuery> }): Viewer | TokenViewer {
  const { token } = request.query
  return token === undefined ? viewerOf(request) : { tenant: tenantOrPlatform(request.tenant), token }
}

/** The scope of a named workflow: its input, and the user of the run. */
function scopeOf (request: FastifyRequest, input: unknown, fullAccess: boolean): Scope {
  const auth = callerOf(request)
  const { tenant, headers } = request
  const given = { auth, tenant, input: input ?? null, trace: traceOf(headers) }
  return { ...noScope, body: null, results: {}, fullAccess, ...given }
}

function statusOf ({ definition, result, steps, ...run }: ReadRun): Static<typeof RunStatus> {
  const begun = new Map(steps.map((step) => [step.step, step]))
  const isOver = run.finishedAt !== null
  const declared = [...everyStep(readDefinition(definition).definition.steps)]
  return {
    ...listed(run),
    steps: declared.map(({ id }) => stepOf(id, begun.get(id), isOver)),
    ...result !== null && { result: parseJson(result) }
  }
}

/** No step of an ended run waits or runs. */
function stepOf (id: string, step: StoredStep | undefined, isOver: boolean): Static<typeof StepStatus> {
  if (step === undefined) return { id, status: isOver ? 'skipped' : 'pending', startedAt: null, finishedAt: null }
  const { status, startedAt, finishedAt, error } = step
  return {
    id,
    status: isOver && status === 'running' ? 'canceled' : status,
    startedAt,
    finishedAt,
    ...error !== null && { error }
  }
}

function listed ({ id, error, ...run }: ListedRun): Static<typeof Run> {
  return { workflowId: id, ...run, ...error !== null && { error } }
}
