/** Runs a workflow within the request that asks for it: nothing of it is stored (DESIGN 9). */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Scope } from '../../lib/compiler/types.js'
import type { CompiledWorkflow } from '../../lib/workflows/index.js'
import { goneOf, maxSyncMs } from '../config-routes/workflow.js'
import { limitedUser } from '../resource-limits/service.js'
import { runWorkflow } from './runner.js'
import { SyncJournal } from './sync-journal.js'

/** Answers the result. */
export type RunInRequest = (workflow: CompiledWorkflow, scope: Scope, request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply>

export function createInRequest (app: FastifyInstance): RunInRequest {
  return async (workflow, scope, request, reply) => {
    const tenant = request.tenant?.id ?? ''
    const secrets = workflow.secrets.length > 0 && tenant !== '' && app.hasDecorator('secrets') ? app.secrets : null
    const values = await secrets?.values(tenant) ?? scope.secrets
    secrets?.accessed(tenant, workflow.secrets)
    const limits = app.hasDecorator('resourceLimits') ? app.resourceLimits : null
    const taken = await limits?.take(limitedUser(request), { resource: 'workflow', metric: 'count', amount: 1 })
    const webhooks = app.hasDecorator('webhooks') ? app.webhooks : null
    const journal = new SyncJournal(workflow, app.engine, tenant === '' ? null : tenant)
    let events = false
    try {
      events = workflow.writes.length > 0 && webhooks !== null && await webhooks.hears(tenant)
      const { result } = await runWorkflow(workflow, { ...scope, secrets: values, events }, {
        journal,
        cache: app.hasDecorator('cache') ? app.cache : null,
        integrations: app.hasDecorator('integrations') ? app.integrations : null,
        steps: app.workflows.steps,
        signal: goneOf(reply),
        log: request.log,
        timeoutMs: maxSyncMs
      })
      return await reply.header('content-type', 'application/json; charset=utf-8').send(`{"workflowId":"${journal.runId}","status":"completed","result":${result}}`)
    } catch (error) {
      await taken?.give()
      throw error
    } finally {
      // Steps before one that failed are done.
      if (events) webhooks?.wake()
    }
  }
}
