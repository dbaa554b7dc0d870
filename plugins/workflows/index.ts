/** Asynchronous workflows: `app.workflows` and its endpoints. */
import { Type } from 'typebox'
import { checkConfig, type Config, type ConfigInput, type Env } from '../../lib/configuration/index.js'
import { type ConnectorSet, platformConnectors } from '../../lib/connectors/index.js'
import { prefixOf } from '../../lib/http/prefix.js'
import { definePlugin, type EndpointOptions, optional } from '../../lib/plugin/define.js'
import { listen, runWhenReady, sweepHourly, untilSuccess } from '../../lib/plugin/lifecycle.js'
import { checkedConfig, list, record, section, text } from '../../lib/plugin/options.js'
import { sectionsOf } from '../../lib/plugin/sections.js'
import { ClosedObject } from '../../lib/schema/annotations.js'
import type { StepRunners } from '../../lib/workflows/service-steps.js'
import { createCompletion } from './complete.js'
import { createDocuments } from './documents.js'
import { createRunJob } from './job.js'
import { workflowRoutes } from './routes.js'
import { createRunCallers } from './run-caller.js'
import { createSchedules, type Schedules } from './schedules.js'
import { createWorkflowRuns, runTask, type WorkflowRuns } from './service.js'
import { createEmbeddingsStep, createLlmStep, createRealtimeStep } from './service-steps.js'
import { createRunStore, sweepRuns } from './store.js'

export type { Documents, TenantWorkflows, WorkflowDocument } from './documents.js'
export type { NamedRun, NewRun, WorkflowRuns } from './service.js'
export type { StepCall, StepRunner, StepRunners } from '../../lib/workflows/service-steps.js'
export type { ListedRun, ReadRun, RunStatus, StoredStep, Viewer } from './store.js'

declare module 'fastify' {
  interface FastifyInstance {
    workflows: WorkflowRuns & Pick<Schedules, 'startDue'>
  }
}

/** The document's sections of the same names, with the document's defaults. */
export interface WorkflowsOptions
  extends
  Pick<EndpointOptions, 'prefix'>,
  Partial<Pick<ConfigInput, 'pagination' | 'functions' | 'workflows' | 'credentials' | 'customIntegrations'>> {
  /** The values of `{{env.NAME}}`. Default: the process's environment. */
  readonly env?: Env | undefined
  /** A checked configuration, instead of the sections. */
  readonly config?: Config | undefined
  /** The configuration's compiled connectors. Default: compiled from the configuration. */
  readonly connectors?: ConnectorSet | undefined
  /**
   * The runners of steps of the types `llm`, `embeddings`, `storage` and `realtime`. Default: those of the plugins models for `llm`,
   * embeddings for `embeddings`, files for `storage` and realtime for `realtime`. Documents with steps of other types are refused.
   */
  readonly steps?: StepRunners | undefined
}

const Runner = Type.Optional(Type.Unknown())

export default definePlugin<WorkflowsOptions>({
  name: 'workflows',
  dependencies: ['database', 'tenancy', 'queue'],
  // They run steps of the types `storage`, `llm`, `embeddings` and `realtime`.
  after: ['files', 'models', 'embeddings', 'realtime'],
  optional: ['secrets', 'cache', 'integrations', 'mcp-client', 'tools', 'webhooks', 'resource-limits', 'tenant-config'],
  routeDependencies: ['auth'],
  // The configuration check validates the members of the sections.
  options: {
    pagination: record,
    functions: record,
    workflows: list,
    credentials: record,
    customIntegrations: list,
    config: checkedConfig,
    connectors: record,
    env: record,
    steps: section(ClosedObject({ llm: Runner, embeddings: Runner, storage: Runner, realtime: Runner })),
    prefix: text
  },
  setup (app, { env = process.env, steps: ownSteps = {}, prefix, ...options }) {
    const { pagination, functions, workflows, credentials, customIntegrations } = options
    const sections = { pagination, functions, workflows, credentials, customIntegrations, routes: [], ...sectionsOf(app) }
    const { config = checkConfig(sections, { env, embedded: true }) } = options
    const { connectors = platformConnectors(config, env, config.tenancy.overridableEnv) } = options
    const { db, engine, events, queue } = app
    const routeFiles = optional(app, 'routeFiles')()
    const models = optional(app, 'models')()
    const embeddings = optional(app, 'embeddings')()
    const realtime = optional(app, 'realtime')()
    const steps = {
      ...routeFiles !== null && { storage: routeFiles.step },
      ...models !== null && models.chatModel !== null && { llm: createLlmStep(models, optional(app, 'mcpServers')) },
      ...embeddings !== null && { embeddings: createEmbeddingsStep(embeddings) },
      ...realtime !== null && { realtime: createRealtimeStep(realtime) },
      ...ownSteps
    }
    const tenantDocuments = optional(app, 'tenantDocuments')
    const context = {
      env,
      pagination: config.pagination,
      functions: config.functions,
      sharedTables: new Set(config.tenancy.sharedTables),
      overridableEnv: new Set(config.tenancy.overridableEnv),
      origin: 'platform',
      connectors,
      stepKinds: steps,
      fileRules: routeFiles?.rules ?? null
    } as const
    const documents = createDocuments(
      { workflows: config.workflows, context: (catalogue) => ({ ...context, catalogue }) },
      () => tenantDocuments()?.workflows ?? null,
      () => engine.catalogue
    )
    const store = createRunStore(engine.kyselyFor)
    const parts = { app, store, documents, steps, callers: createRunCallers(app) }
    const job = createRunJob(parts, createCompletion(app, store, engine.kyselyFor))
    // An attempt takes as long as its steps. After a failure of the server itself the run is retried for a day.
    queue.define(runTask, {
      retryLimit: 100,
      retryDelay: 1,
      expireIn: 86_400,
      setAside: job.setAside,
      endpoints: 'POST /agent/workflow/run starts its run, POST /agent/workflow/cancel ends it'
    }, job.handle)

    const runs = createWorkflowRuns(parts, prefixOf(app, prefix))
    const schedules = createSchedules({ app, store, documents, workflows: config.workflows, start: runs.startAt })
    app.decorate('workflows', { ...runs, startDue: schedules.startDue })
    // The queue has started its workers. A process without workers only serves requests.
    runWhenReady(app, () => queue.status().workers > 0 ? schedules.watch() : undefined)

    const check = untilSuccess(app, job.check, 'canceled runs of workflows could not be read: retrying')
    listen(app, events, { workflows: check, tenant: check, gap: () => job.tenants().forEach(check) })
    sweepHourly(app, 'old runs of workflows', () => sweepRuns(db))
    return (group) => workflowRoutes(group, config.tenancy.dashboardPermission)
  }
})
