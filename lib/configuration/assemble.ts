/** Assembles a configuration from the sections of a document, and checks their meaning. */
import { compileDocument } from '../compiler/document.js'
import { compileConnectors, unknownConnectors } from '../connectors/index.js'
import { platformWebhookSources } from '../connectors/outbound-webhook.js'
import type { ConnectorSet } from '../connectors/types.js'
import { type Catalogue, unknownCatalogue } from '../database/catalogue.js'
import { wantedTables, withDeclared } from '../database/declared-tables.js'
import type { Config } from '../document/config.js'
import { databaseOf, firebaseOf, migrateOf } from '../document/database.js'
import { builtInGroups } from '../document/reserved.js'
import { vectorTableOf } from '../document/rules/agent.js'
import { roleTablesOf } from '../document/rules/auth.js'
import { checkEndpoints } from '../document/rules/endpoint-limits.js'
import { checkRealtime, checkWatchedTables } from '../document/rules/realtime.js'
import { checkLimits, checkRoutes, checkWebhooks, checkWorkflows } from '../document/rules/routes.js'
import { checkTenancy, defaultLimit } from '../document/rules/sections.js'
import { checkTables } from '../document/rules/tables.js'
import { checkChatTools } from '../document/rules/tools.js'
import { type Entry, has, type Sections } from '../document/sections.js'
import { webhookRoutes } from '../document/webhook-routes.js'
import { fileRulesOf } from '../files/rules.js'
import type { FirestoreRules } from '../queries/index.js'
import { Agent } from '../schema/agent.js'
import type { FaultList } from '../schema/faults.js'
import { SqlFunction } from '../schema/function.js'
import { Credentials, CustomIntegrations } from '../schema/integrations.js'
import { Plugins } from '../schema/plugins.js'
import { Realtime } from '../schema/realtime.js'
import { Root } from '../schema/root.js'
import { Route } from '../schema/route.js'
import { TableDefinition } from '../schema/table.js'
import { Webhooks } from '../schema/webhook.js'
import { Workflow } from '../schema/workflow.js'
import { embeddingsStep, llmStep, realtimeStep, storageStep } from '../workflows/service-steps.js'
import { unknownStepKinds } from '../workflows/steps.js'
import type { StepKinds } from '../workflows/types.js'
import { identityOf, modelsOf, type PartContext, servingOf, storageOf, tenantsOf } from './parts.js'

/** The members of a configuration that every document has, declared or by default. */
const required = [
  'database', 'plugins', 'authProviders', 'auth', 'mfa', 'rbac', 'files', 'storageProvider', 'server', 'pagination', 'cache', 'tenancy',
  'plans', 'analytics', 'egress', 'queue', 'rateLimit', 'realtime', 'webhooks'
] as const

/** Checks the meaning of each valid section; undefined if any section is invalid, which has been reported already. */
export function assemble (sections: Sections, assembly: Omit<PartContext, 'sections' | 'off'>): Config | undefined {
  const { provider, env, faults } = assembly
  const plugins = sections.get('plugins', Plugins)
  const off = new Set(Object.entries(plugins ?? {}).filter(([, options]) => options === false).map(([name]) => name))
  const context = { ...assembly, sections, off }
  const name = sections.get('name', Root.properties.name)
  const firebase = firebaseOf(sections, faults)
  const { declared, connectors } = integrationsOf(context)
  const parts = {
    ...name !== undefined && { name },
    plugins,
    database: databaseOf(sections, provider, faults),
    ...firebase !== undefined && { firebase },
    ...declared,
    ...identityOf(context, connectors),
    ...modelsOf(context),
    ...storageOf(context),
    ...servingOf(context),
    ...tenantsOf(context)
  }
  const config = {
    ...parts,
    ...contentOf(context, parts, connectors),
    migrate: migrateOf(sections.get('migrate', Root.properties.migrate), provider, env)
  }
  return has(config, required) ? { ...config, database: withTables(config, off) } : undefined
}

/** The database, with the tables that other sections need. */
function withTables (
  { database, rbac, agent, realtime }: Pick<Config, 'database' | 'rbac' | 'agent' | 'realtime'>,
  off: ReadonlySet<string>
): Config['database'] {
  const roleTables = off.has('rbac') ? undefined : roleTablesOf(rbac)
  const vectorTable = agent && vectorTableOf(agent)
  const hasFeed = isRealtimeOn(realtime, off) && Object.keys(realtime.tables).length > 0
  return {
    ...database,
    ...roleTables !== undefined && { roleTables },
    ...vectorTable !== undefined && { vectorTable },
    ...hasFeed && { watched: realtime.tables }
  }
}

/** The parts that the rest of the document refers to. */
type Parts = Partial<Pick<Config, 'agent' | 'cache' | 'database' | 'files' | 'firebase' | 'pagination' | 'rateLimit' | 'tenancy'>>

/** Tables and functions, the routes, webhooks and workflows that are compiled against them, and the change feed. */
function contentOf (context: PartContext, parts: Parts, connectors: ConnectorSet) {
  const { sections, faults } = context
  const tables = checkedTables(context, parts.tenancy)
  const catalogue = context.declaredTables ? declaredCatalogue(parts.database, tables, faults) : unknownCatalogue
  const realtime = checkedRealtime(context, catalogue)
  const webhooks = checkedWebhooks(context)
  const declared = sections.entries('routes', Route)
  const routes = [...declared, ...webhookRoutes(webhooks ?? [])]
  // A limit may name the route of an invalid webhook.
  checkRouteSections(context, declared, routes, webhooks === undefined ? undefined : parts.rateLimit)
  const workflows = sections.entries('workflows', Workflow)
  checkWorkflows(workflows, faults)
  const functions = sections.entries('functions', SqlFunction)
  compileContent(context, parts, { connectors, catalogue, routes, workflows, functions, realtime })
  return {
    tables: valuesOf(tables),
    functions: valuesOf(functions),
    routes: declared.map(({ value }) => value),
    realtime,
    webhooks,
    workflows: workflows.map(({ value }) => value)
  }
}

function checkedTables (
  { sections, faults, embedded, provider }: PartContext,
  tenancy: Config['tenancy'] | undefined
): readonly Entry<TableDefinition>[] {
  const tables = sections.entries('tables', TableDefinition)
  // An embedding app may have tables that the document does not declare.
  const isComplete = !embedded && provider === 'embedded' && tables.length === sections.size('tables')
  checkTables(tables, isComplete, faults)
  if (tenancy !== undefined) checkTenancy(tenancy, tables, isComplete, faults)
  return tables
}

function checkedRealtime ({ sections, faults }: PartContext, catalogue: Catalogue): Config['realtime'] | undefined {
  const realtime = sections.filled('realtime', Realtime, 'tables')
  if (realtime === undefined) return undefined
  checkRealtime(realtime, faults)
  checkWatchedTables(realtime, catalogue, faults)
  return realtime
}

function checkedWebhooks ({ sections, env, faults, off }: PartContext): Config['webhooks'] | undefined {
  const webhooks = sections.get('webhooks', Webhooks)
  if (webhooks === undefined) return undefined
  checkWebhooks(webhooks, { faults, env, sources: platformWebhookSources }, { origin: 'platform', sent: !off.has('webhooks') })
  return webhooks
}

interface Content {
  readonly connectors: ConnectorSet
  readonly catalogue: Catalogue
  readonly routes: readonly Entry<Route>[]
  readonly workflows: readonly Entry<Workflow>[]
  readonly functions: readonly Entry<SqlFunction>[]
  readonly realtime: Config['realtime'] | undefined
}

/** Compiles the valid routes and workflows, which reports their faults. */
function compileContent (context: PartContext, parts: Parts, content: Content): void {
  const { sections, env, faults, embedded, off } = context
  const { connectors, catalogue, routes, workflows, functions, realtime } = content
  const realtimeOn = isRealtimeOn(realtime, off)
  // The files of an embedding app are unknown here.
  const files = parts.files !== undefined && off.has('files') ? { ...parts.files, enabled: false } : parts.files
  const fileRules = embedded || files === undefined ? undefined : fileRulesOf(files)
  compileDocument({ routes, workflows: sections.size('workflows') === workflows.length ? workflows : undefined }, {
    faults,
    env,
    catalogue,
    pagination: parts.pagination ?? { defaultLimit, maxLimit: defaultLimit, defaultOffset: 0 },
    cache: { enabled: parts.cache?.enabled !== false, ttl: parts.cache?.ttl ?? 1 },
    sharedTables: new Set(parts.tenancy?.sharedTables),
    overridableEnv: new Set(parts.tenancy?.overridableEnv),
    origin: 'platform',
    connectors,
    fileRules,
    firestore: firestoreRulesOf(context, parts.firebase),
    stepKinds: embedded ? unknownStepKinds : stepKindsOf(parts.agent, { storage: fileRules !== null, realtime: realtimeOn }),
    // A query may name an invalid function.
    functions: sections.size('functions') === functions.length ? valuesOf(functions) : undefined,
    messages: embedded ? undefined : realtimeOn
  })
}

/** Checks the routes, and the sections that name routes. `routes` are the declared ones and those of webhooks. */
function checkRouteSections (
  { sections, faults, embedded, off }: PartContext,
  declared: readonly Entry<Route>[],
  routes: readonly Entry<Route>[],
  rateLimit: Config['rateLimit'] | undefined
): void {
  checkLimits(routes, off, faults)
  checkRoutes(
    routes,
    embedded
      ? { faults, jwt: true, off: builtInGroups }
      : { faults, jwt: sections.has('jwt'), providers: sections.names('authProviders'), off }
  )
  // A tool or a limit may name an invalid route.
  if (declared.length < sections.size('routes')) return
  const agent = sections.get('agent', Agent)
  checkChatTools(agent?.chat?.tools ?? [], declared, agent?.mcpServers?.map(({ name }) => name) ?? [], faults)
  if (rateLimit !== undefined) checkEndpoints(rateLimit, routes, off, faults)
}

function isRealtimeOn (realtime: Config['realtime'] | undefined, off: ReadonlySet<string>): boolean {
  return realtime?.enabled !== false && !off.has('realtime')
}

function stepKindsOf (agent: Config['agent'], on: { readonly storage: boolean, readonly realtime: boolean }): StepKinds {
  return {
    ...on.storage && { storage: storageStep },
    ...on.realtime && { realtime: realtimeStep },
    ...agent?.llm !== undefined && { llm: llmStep },
    ...agent?.embedding !== undefined && { embeddings: embeddingsStep }
  }
}

/** undefined, for unknown rules, in an embedding app or after faults. */
function firestoreRulesOf ({ sections, embedded }: PartContext, firebase: Config['firebase']): FirestoreRules | null | undefined {
  if (firebase !== undefined) return { isDefault: firebase.isDefault, sharedCollections: new Set(firebase.sharedCollections) }
  return embedded || sections.has('firebase') ? undefined : null
}

/** The declared tables, which are all tables of the embedded engine. Tables with faults are unknown. */
function declaredCatalogue (
  database: Config['database'] | undefined,
  tables: readonly Entry<TableDefinition>[],
  { faults }: FaultList
): Catalogue {
  if (database === undefined || faults.some(({ pointer }) => pointer.startsWith('/tables'))) return unknownCatalogue
  const declared = wantedTables(valuesOf(tables))
  const schema = database.postgres?.schema ?? unknownCatalogue.schema
  return withDeclared({ schema, tables: new Map(), partial: database.provider !== 'embedded' }, declared)
}

function valuesOf<Value> (entries: readonly Entry<Value>[]): Record<string, Value> {
  return Object.fromEntries(entries.map(({ name, value }) => [name, value]))
}

/** The declared integrations, and their connectors for routes and workflows. */
function integrationsOf ({ sections, env, faults }: PartContext) {
  const credentials = sections.get('credentials', Credentials)
  const customIntegrations = sections.get('customIntegrations', CustomIntegrations)
  const declared = { ...credentials !== undefined && { credentials }, ...customIntegrations !== undefined && { customIntegrations } }
  const isRead = (['credentials', 'customIntegrations'] as const).every((name) => Object.hasOwn(declared, name) === sections.has(name))
  return { declared, connectors: isRead ? compileConnectors(declared, { origin: 'platform', env, faults }) : unknownConnectors }
}
