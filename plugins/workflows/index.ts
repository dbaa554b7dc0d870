/**
 * Asynchronous workflows: `app.workflows` (DESIGN 9). A service plugin (fp). Needs the plugins database, tenancy and queue;
 * takes secrets, cache, integrations, webhooks and resource-limits where they are registered, before it or after.
 * `workflowRoutes`, beside it, are its endpoints.
 */
import type {} from '../cache/store.js'
import type {} from '../database/index.js'
import type {} from '../integrations/index.js'
import type {} from '../resource-limits/index.js'
import type {} from '../secrets/index.js'
import type {} from '../tenancy/index.js'
import type {} from '../webhooks/index.js'
import type { FastifyInstance } from 'fastify'
import type { Config, ConfigInput, Env } from '../../lib/config/index.js'
import type { TenantWorkflows, WorkflowDocument } from './documents.js'
import type { StepRunners } from './step-runners.js'
import fp from 'fastify-plugin'
import { checkConfig } from '../../lib/config/index.js'
import { platformConnectors, type ConnectorSet } from '../../lib/connectors/index.js'
import { everyHour } from '../../lib/database/sweeping.js'
import { requireDecorator } from '../../lib/plugin/requirement.js'
import { createDocuments } from './documents.js'
import { createEnd } from './end.js'
import { createRunJob } from './job.js'
import { createWorkflowRuns, runTask, type WorkflowRuns } from './service.js'
import { createRunStore, sweepRuns } from './store.js'

export { default as workflowRoutes } from './routes.js'
export type { Documents, TenantWorkflows, WorkflowDocument } from './documents.js'
export type { NewRun, WorkflowRuns } from './service.js'
export type { StepCall, StepRunner, StepRunners } from './step-runners.js'
export type { ListedRun, ReadRun, RunStatus, StoredStep, Viewer } from './store.js'

declare module 'fastify' {
  interface FastifyInstance {
    workflows: WorkflowRuns
  }
}

/** The document's sections of the same names; what they leave out has the document's defaults. */
export interface WorkflowsOptions extends Partial<Pick<ConfigInput, 'tenancy' | 'pagination' | 'workflows' | 'credentials' | 'customIntegrations'>> {
  /** What `{{env.NAME}}` reads. Default: the process's environment. */
  readonly env?: Env | undefined
  /** Who runs steps of the types `llm`, `embeddings` and `storage`. Default: nobody, and documents with such steps are refused. */
  readonly steps?: StepRunners | undefined
}

/** The same after the check. */
export interface CheckedWorkflowsOptions extends Pick<Config, 'tenancy' | 'pagination' | 'workflows'> {
  /** Those of the document. */
  readonly connectors: ConnectorSet
  readonly env: Env
  readonly steps?: StepRunners | undefined
}

/** Takes checked sections; registered with fp by whoever has them. */
export async function workflows (app: FastifyInstance, options: CheckedWorkflowsOptions): Promise<void> {
  requireDecorator(app, 'engine', 'database', 'workflows')
  requireDecorator(app, 'tenants', 'tenancy', 'workflows')
  requireDecorator(app, 'queue', 'queue', 'workflows')
  const { db, engine, events, log, queue } = app
  const { steps = {} } = options
  let tenants: TenantWorkflows | null = null
  const documents = createDocuments(platformOf(options, steps), () => tenants, () => engine.catalogue)
  const dbFor = (tenant: string) => tenant === '' ? engine.kysely : engine.kyselyFor(tenant)
  const store = createRunStore(dbFor)

  const end = createEnd({ store, dbFor, webhooks: () => app.hasDecorator('webhooks') ? app.webhooks : null, log })
  const job = createRunJob({
    engine,
    store,
    documents,
    tenants: app.tenants,
    steps,
    end,
    log,
    plugins: () => ({
      cache: app.hasDecorator('cache') ? app.cache : null,
      integrations: app.hasDecorator('integrations') ? app.integrations : null,
      secrets: app.hasDecorator('secrets') ? app.secrets : null,
      webhooks: app.hasDecorator('webhooks') ? app.webhooks : null
    })
  })
  // An attempt takes as long as its steps do. After a failure that is none of a step it is tried again, for as long as anybody may wait.
  queue.define(runTask, { retryLimit: 100, retryDelay: 1, expireIn: 86_400, setAside: job.setAside, endpoints: 'POST /agent/workflow/run starts its run, POST /agent/workflow/cancel ends it' }, job.handle)

  app.decorate('workflows', createWorkflowRuns({
    engine,
    queue,
    store,
    documents,
    steps,
    prefix: app.prefix,
    limits: () => app.hasDecorator('resourceLimits') ? app.resourceLimits : null,
    useTenants (source) { tenants = source }
  }))

  const check = (tenant: string) => {
    job.check(tenant).catch((err: unknown) => log.debug({ err }, 'whether runs of workflows were canceled could not be read: their next step finds out'))
  }
  const ends = [events.on('workflows', check), events.on('tenant', check)]
  const stopSweeping = everyHour(() => sweepRuns(db), (err) => log.warn({ err }, 'runs of workflows that were started long ago could not be swept; it is tried again'))
  app.addHook('onClose', async () => {
    for (const end of ends) end()
    await stopSweeping()
  })
}

function platformOf ({ workflows, connectors, pagination, tenancy, env }: CheckedWorkflowsOptions, steps: StepRunners): WorkflowDocument {
  const context = {
    env,
    pagination,
    sharedTables: new Set(tenancy.sharedTables),
    overridableEnv: new Set(tenancy.overridableEnv),
    origin: 'platform',
    connectors,
    stepKinds: steps
  } as const
  return { workflows, context: (catalogue) => ({ ...context, catalogue }) }
}

/** Checks the sections that an app gives. */
async function embeddedWorkflows (app: FastifyInstance, { env = process.env, steps, ...sections }: WorkflowsOptions): Promise<void> {
  const config = checkConfig({ ...sections, routes: [] }, { env, embedded: true })
  await workflows(app, { ...config, connectors: platformConnectors(config, env, config.tenancy.overridableEnv), env, steps })
}

export default fp(embeddedWorkflows, { name: 'tenantry-workflows', fastify: '5.x' })
