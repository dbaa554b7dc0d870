/** Assembles a configuration from the sections of a document, and checks their meaning. */
import { compileDocument } from '../compiler/document.js'
import { compileConnectors, unknownConnectors } from '../connectors/index.js'
import { platformWebhookSources } from '../connectors/outbound-webhook.js'
import type { ConnectorSet } from '../connectors/types.js'
import { type Catalogue, unknownCatalogue } from '../database/catalogue.js'
import { wantedTables, withDeclared } from '../database/declared-tables.js'
import type { Config } from '../document/config.js'
import { databaseOf, firebaseOf, migrateOf, type Provider } from '../document/database.js'
import { builtInGroups } from '../document/reserved.js'
import { agentOf, checkMcp, vectorTableOf } from '../document/rules/agent.js'
import { canSign, checkAuth, checkAuthProviders, checkJwt, checkMfa, checkRbac, roleTablesOf } from '../document/rules/auth.js'
import { billingOf, checkPayprovAddress } from '../document/rules/billing.js'
import { checkMail } from '../document/rules/mail.js'
import { checkRealtime, checkWatchedTables } from '../document/rules/realtime.js'
import { checkLimits, checkRoutes, checkWebhooks, checkWorkflows } from '../document/rules/routes.js'
import {
  checkCache, checkCors, checkEgress, checkEndpoints, checkFiles, checkPlans, checkRedisUrl, checkStorage, checkTenancy,
  withDefaultRule
} from '../document/rules/sections.js'
import { checkTables } from '../document/rules/tables.js'
import { checkChatTools } from '../document/rules/tools.js'
import { type Entry, filled, type Sections } from '../document/sections.js'
import { webhookRoutes } from '../document/webhook-routes.js'
import type { Env } from '../expressions/environment.js'
import { fileRulesOf } from '../files/rules.js'
import { Agent } from '../schema/agent.js'
import { Analytics } from '../schema/analytics.js'
import { Auth, Mfa, Rbac } from '../schema/auth.js'
import { CacheStore } from '../schema/cache.js'
import type { FaultList } from '../schema/faults.js'
import { Files, S3, StorageProvider } from '../schema/files.js'
import { SqlFunction } from '../schema/function.js'
import { Credentials, CustomIntegrations } from '../schema/integrations.js'
import { RateLimit } from '../schema/limits.js'
import { Mcp } from '../schema/mcp.js'
import { Pagination } from '../schema/pagination.js'
import { Plans } from '../schema/plans.js'
import { Plugins } from '../schema/plugins.js'
import { Queue } from '../schema/queue.js'
import { Realtime } from '../schema/realtime.js'
import { Root } from '../schema/root.js'
import { Route } from '../schema/route.js'
import { Cors, Server } from '../schema/server.js'
import { TableDefinition } from '../schema/table.js'
import { Egress, Tenancy } from '../schema/tenancy.js'
import { AuthProviders, Jwt } from '../schema/tokens.js'
import { Webhooks } from '../schema/webhook.js'
import { Workflow } from '../schema/workflow.js'
import { embeddingsStep, llmStep, realtimeStep, storageStep } from '../workflows/service-steps.js'
import { unknownStepKinds } from '../workflows/steps.js'

const defaultLimit = 20 // rows per page

/** The options of the assembly. */
export interface Assembly {
  readonly provider: Provider
  readonly env: Env
  readonly faults: FaultList
  /** The routes are registered in an app with its own tokens and endpoints. */
  readonly embedded: boolean
  /** Queries on declared tables are compiled against their declarations. */
  readonly declaredTables: boolean
}

/** Checks the meaning of each valid section; undefined if any section is invalid, which has been reported already. */
export function assemble (sections: Sections, { provider, env, faults, embedded, declaredTables }: Assembly): Config | undefined {
  const database = databaseOf(sections, provider, faults)
  const firebase = firebaseOf(sections, faults)
  // The parts of an embedding app, and sections with faults, are unknown here.
  const firestoreRules = firebase !== undefined
    ? { isDefault: firebase.isDefault, sharedCollections: new Set(firebase.sharedCollections) }
    : embedded || sections.has('firebase')
      ? undefined
      : null
  const jwt = jwtOf(sections, faults)
  const plugins = sections.get('plugins', Plugins)
  const off = new Set(Object.entries(plugins ?? {}).filter(([, options]) => options === false).map(([name]) => name))
  const auth = sections.filled('auth', Auth, 'registration', 'refreshDays')
  // A section `jwt` with faults counts as unknown.
  if (auth !== undefined) checkAuth(auth, { signs: jwt === undefined ? sections.has('jwt') : canSign(jwt), off }, faults)
  const providers = sections.get('authProviders', AuthProviders)
  const authProviders = providers && checkAuthProviders(providers, jwt?.issuer, faults)
  const tables = sections.entries('tables', TableDefinition)
  // An embedding app may have tables that the document does not declare.
  const complete = !embedded && provider === 'embedded' && tables.length === sections.size('tables')
  checkTables(tables, complete, faults)
  const declared = sections.entries('routes', Route)
  const webhooks = sections.get('webhooks', Webhooks)
  const routes = [...declared, ...webhookRoutes(webhooks ?? [])]
  checkLimits(routes, off, faults)
  checkRoutes(
    routes,
    embedded
      ? { faults, jwt: true, off: builtInGroups }
      : { faults, jwt: sections.has('jwt'), providers: sections.names('authProviders'), off }
  )
  const agent = sections.get('agent', Agent)
  const agentSettings = agent && agentOf(agent, { env, off }, faults)
  // A name may refer to the tool of an invalid route.
  if (declared.length === sections.size('routes')) {
    checkChatTools(agent?.chat?.tools ?? [], declared, agent?.mcpServers?.map(({ name }) => name) ?? [], faults)
  }
  const workflows = sections.entries('workflows', Workflow)
  checkWorkflows(workflows, faults)
  const connectors = connectorsOf(sections, env, faults)
  if (auth !== undefined && !embedded) checkMail(auth, { env, connectors }, faults)
  const files = sections.filled('files', Files, 'buckets', 'signedUrlSeconds')
  // The files of an embedding app are unknown here.
  const fileRules = embedded || files === undefined ? undefined : fileRulesOf(files, off.has('files'))
  const realtime = sections.filled('realtime', Realtime, 'tables')
  const realtimeOn = realtime?.enabled !== false && !off.has('realtime')
  const stepKinds = embedded
    ? unknownStepKinds
    : {
        ...fileRules !== null && { storage: storageStep },
        ...realtimeOn && { realtime: realtimeStep },
        ...agentSettings?.llm !== undefined && { llm: llmStep },
        ...agentSettings?.embedding !== undefined && { embeddings: embeddingsStep }
      }
  const functions = sections.entries('functions', SqlFunction)
  const declaredFunctions = Object.fromEntries(functions.map(({ name, value }) => [name, value]))
  const pagination = paginationOf(sections, faults)
  const cache = sections.filled('cache', CacheStore, 'ttl', 'maxSize', 'maxMemoryMB')
  const tenancy = sections.filled(
    'tenancy',
    Tenancy,
    'provisioning',
    'trustHeader',
    'sharedTables',
    'env',
    'overridableEnv',
    'maxLoadedTenants'
  )
  const catalogue = declaredTables ? declaredCatalogue(database, tables, faults) : unknownCatalogue
  compileDocument({ routes, workflows: sections.size('workflows') === workflows.length ? workflows : undefined }, {
    faults,
    env,
    catalogue,
    pagination: pagination ?? { defaultLimit, maxLimit: defaultLimit, defaultOffset: 0 },
    cache: { enabled: cache?.enabled !== false, ttl: cache?.ttl ?? 1 },
    sharedTables: new Set(tenancy?.sharedTables),
    overridableEnv: new Set(tenancy?.overridableEnv),
    origin: 'platform',
    connectors,
    fileRules,
    firestore: firestoreRules,
    stepKinds,
    // A query may name an invalid function.
    functions: sections.size('functions') === functions.length ? declaredFunctions : undefined,
    messages: embedded ? undefined : realtimeOn
  })
  if (cache !== undefined) checkCache(cache, faults)
  const rateLimit = rateLimitOf(sections)
  checkRedisUrl(cache?.redis, '/cache/redis', faults)
  checkRedisUrl(rateLimit?.redis, '/rateLimit/redis', faults)
  // A limit may name an invalid route.
  if (rateLimit !== undefined && webhooks !== undefined && declared.length === sections.size('routes')) {
    checkEndpoints(rateLimit, routes, off, faults)
  }
  const server = sections.filled('server', Server, 'bodyLimit', 'maxUnsentBytes', 'stopDelayMs', 'trustProxy', 'writeTimeoutMs')
  const cors = sections.filled('cors', Cors, 'credentials', 'maxAge', 'exposedHeaders')
  if (cors !== undefined) checkCors(cors, faults)
  if (tenancy !== undefined) checkTenancy(tenancy, tables, complete, faults)
  const plans = sections.get('plans', Plans)
  if (plans !== undefined) checkPlans(plans, faults)
  const billing = plans === undefined || embedded || off.has('billing') ? undefined : billingOf(env, plans, faults)
  if (off.has('billing') && !off.has('tenant-billing') && !embedded) checkPayprovAddress(env, faults)
  const analytics = sections.get('analytics', Analytics)
  const mfa = sections.get('mfa', Mfa)
  if (mfa !== undefined) checkMfa(mfa, { jwt: sections.has('jwt'), off }, faults)
  const rbac = sections.get('rbac', Rbac)
  if (rbac !== undefined) checkRbac(rbac, faults)
  const egress = sections.filled('egress', Egress, 'allow')
  if (egress !== undefined) checkEgress(egress, faults)
  if (files !== undefined) checkFiles(files, faults)
  const mcp = sections.get('mcp', Mcp)
  if (mcp !== undefined) checkMcp(mcp, faults)
  if (mcp?.documents === true && agentSettings?.embedding === undefined) {
    faults.add('/mcp/documents', 'documents require `agent.embedding`, which is missing')
  }
  if (realtime !== undefined) {
    checkRealtime(realtime, faults)
    checkWatchedTables(realtime, catalogue, faults)
  }
  const storageProvider = sections.get('storageProvider', StorageProvider)
  const s3 = sections.get('s3', S3)
  if (storageProvider !== undefined && files?.enabled !== false) checkStorage(storageProvider, sections.has('s3'), faults)
  const queue = sections.filled('queue', Queue, 'workers', 'maxWaitingPerTenant')
  const credentials = sections.get('credentials', Credentials)
  const customIntegrations = sections.get('customIntegrations', CustomIntegrations)
  if (webhooks !== undefined) {
    checkWebhooks(webhooks, { faults, env, sources: platformWebhookSources }, { origin: 'platform', sent: !off.has('webhooks') })
  }
  const migrate = sections.get('migrate', Root.properties.migrate)
  const name = sections.get('name', Root.properties.name)
  if (
    !database || !authProviders || !auth || !plugins || !pagination || !cache || !rateLimit || !server || !tenancy || !plans ||
    !analytics || !mfa || !rbac || !egress || !files || !realtime || !storageProvider || !queue || !webhooks
  ) return undefined
  const roleTables = plugins.rbac === false ? undefined : roleTablesOf(rbac)
  const vectorTable = agentSettings && vectorTableOf(agentSettings)
  const hasFeed = realtime.enabled !== false && plugins.realtime !== false && Object.keys(realtime.tables).length > 0
  return {
    ...name !== undefined && { name },
    database: {
      ...database,
      ...roleTables !== undefined && { roleTables },
      ...vectorTable !== undefined && { vectorTable },
      ...hasFeed && { watched: realtime.tables }
    },
    ...firebase !== undefined && { firebase },
    migrate: migrateOf(migrate, provider, env),
    tables: Object.fromEntries(tables.map(({ name, value }) => [name, value])),
    ...jwt !== undefined && { jwt },
    authProviders,
    auth,
    functions: declaredFunctions,
    routes: declared.map((route) => route.value),
    pagination,
    cache,
    rateLimit,
    server,
    ...cors !== undefined && { cors },
    tenancy,
    plans,
    analytics,
    mfa,
    rbac,
    egress,
    files,
    realtime,
    storageProvider,
    ...s3 !== undefined && { s3 },
    queue,
    workflows: workflows.map(({ value }) => value),
    webhooks,
    ...agentSettings !== undefined && { agent: agentSettings },
    ...mcp !== undefined && { mcp },
    ...credentials !== undefined && { credentials },
    ...customIntegrations !== undefined && { customIntegrations },
    ...billing !== undefined && { billing },
    plugins
  }
}

/** The declared tables, which are all tables of the embedded engine. Tables with faults are unknown. */
function declaredCatalogue (
  database: Config['database'] | undefined,
  tables: readonly Entry<TableDefinition>[],
  { faults }: FaultList
): Catalogue {
  if (database === undefined || faults.some(({ pointer }) => pointer.startsWith('/tables'))) return unknownCatalogue
  const declared = wantedTables(Object.fromEntries(tables.map(({ name, value }) => [name, value])))
  const schema = database.postgres?.schema ?? unknownCatalogue.schema
  return withDeclared({ schema, tables: new Map(), partial: database.provider !== 'embedded' }, declared)
}

function jwtOf (sections: Sections, faults: FaultList): Jwt | undefined {
  const section = sections.filled('jwt', Jwt, 'expiresIn')
  return section && { ...section, algorithm: checkJwt(section, faults) }
}

function paginationOf (sections: Sections, faults: FaultList): Pagination | undefined {
  const section = sections.get('pagination', Pagination)
  if (section === undefined) return undefined
  const pagination = filled(
    { ...section, defaultLimit: section.defaultLimit ?? Math.min(defaultLimit, section.maxLimit ?? defaultLimit) },
    'maxLimit',
    'defaultOffset'
  )
  if (pagination.defaultLimit > pagination.maxLimit) {
    faults.add('/pagination/defaultLimit', `expected at most \`maxLimit\`, which is ${pagination.maxLimit}`)
  }
  return pagination
}

/** The connectors for routes and workflows. */
function connectorsOf (sections: Sections, env: Env, faults: FaultList): ConnectorSet {
  const credentials = sections.get('credentials', Credentials)
  const customIntegrations = sections.get('customIntegrations', CustomIntegrations)
  const isRead = (name: string, value: unknown) => value !== undefined || !sections.has(name)
  if (!isRead('credentials', credentials) || !isRead('customIntegrations', customIntegrations)) return unknownConnectors
  return compileConnectors({ credentials, customIntegrations }, { origin: 'platform', env, faults })
}

function rateLimitOf (sections: Sections): Config['rateLimit'] | undefined {
  if (!sections.has('rateLimit')) return { enabled: true, plansOnly: true }
  const section = sections.get('rateLimit', RateLimit)
  return section && withDefaultRule(section)
}
