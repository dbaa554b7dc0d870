/** Assembles the server: the one file of lib/ that knows the plugins. */
import type { FastifyInstance, FastifyServerOptions } from 'fastify'
import Fastify from 'fastify'
import fp from 'fastify-plugin'
import type { Home } from '../plugins/conventions/home.js'
import type { Deliver } from '../plugins/mail/index.js'
import { checkConfig, type Config, type ConfigInput, type Env, environmentOf, isChecked, versionOf } from './configuration/index.js'
import { type ConnectorSet, platformConnectors } from './connectors/index.js'
import { canSign } from './document/rules/auth.js'
import { setting } from './expressions/environment.js'
import { securityRules } from './firestore/rules.js'
import { handleClientError } from './http/client-error.js'
import { handleUnroutedError } from './http/error-handler.js'
import { checkHeaders, headerOptions, limitPipelining, passAllHeaders, requestIds } from './http/first-hooks.js'
import { maxParamLength } from './http/route-paths.js'
import { loggerOptions, RequestLog } from './log/request-log.js'
import { type Group, group, sortPlugins } from './plugin/group.js'
import { serverOptions } from './plugin/lifecycle.js'
import { checkOptions, handler, type OptionChecks, record } from './plugin/options.js'
import { logAbortedRequests } from './plugin/request-end.js'
import { type KeyOptions, openKeys } from './secrets/master-key.js'
import { buildSerializer, buildValidator } from './validation/fastify-compilers.js'
import { version } from './version.js'

export interface Assembly {
  readonly config: Config
  readonly env: Env
  readonly connectors: ConnectorSet
  readonly deliverMail: Deliver | undefined
}

const isOn = (name: keyof Config['plugins']) => ({ config }: Assembly) => config.plugins[name] !== false
/** Logins need a server that signs its own tokens. */
const hasLogins = ({ config: { jwt, plugins } }: Assembly) => plugins.login !== false && jwt !== undefined && canSign(jwt)

const none = () => ({})

function embeddingOptions (agent: Config['agent']) {
  const { dimensions, reindex } = agent?.embedding ?? {}
  return { dimensions, reindex, vectorStore: agent?.vectorStore }
}

/** The plugins of a server. Their dependencies determine the order of registration; independent plugins keep the order of this table. */
export const groups = {
  headers: group(() => import('../plugins/headers/index.js'), { options: none }),
  cors: group(() => import('../plugins/cors/index.js'), {
    enabled: ({ config }) => config.cors !== undefined,
    options: ({ config }) => config.cors ?? { origins: [] }
  }),
  conventions: group(() => import('../plugins/conventions/index.js'), {
    options: ({ config, env }) => ({ root: true, home: homeOf(config, env), pagination: config.pagination })
  }),
  responses: group(() => import('../plugins/responses/index.js'), {
    options: ({ config: { server } }) => ({ maxUnsentBytes: server.maxUnsentBytes, writeTimeoutMs: server.writeTimeoutMs })
  }),
  stop: group(() => import('../plugins/stop/index.js'), { options: ({ config }) => ({ delayMs: config.server.stopDelayMs }) }),
  database: group(() => import('../plugins/database/index.js'), {
    options: ({ config }) => ({
      ...config.database,
      tables: config.tables,
      migrate: config.migrate,
      firebase: config.firebase
    })
  }),
  plans: group(() => import('../plugins/plans/index.js'), { options: ({ config }) => ({ plans: config.plans }) }),
  'rate-limit': group(() => import('../plugins/rate-limit/index.js'), {
    options: ({ config: { cache, rateLimit } }) => ({ redis: cache.provider === 'redis' ? cache.redis : undefined, ...rateLimit })
  }),
  auth: group(() => import('../plugins/auth/index.js'), {
    options: ({ config, env }) => ({ jwt: config.jwt, authProviders: config.authProviders, apiKey: setting(env, 'API_KEY') || undefined })
  }),
  tenancy: group(() => import('../plugins/tenancy/index.js'), { options: ({ config }) => config.tenancy }),
  usage: group(() => import('../plugins/usage/index.js'), {
    enabled: isOn('usage'),
    options: ({ config }) => ({ report: config.plugins.billing !== false })
  }),
  analytics: group(() => import('../plugins/analytics/index.js'), {
    enabled: (assembly) => assembly.config.analytics.enabled && isOn('analytics')(assembly),
    options: ({ config }) => config.analytics
  }),
  metrics: group(() => import('../plugins/metrics/index.js'), {
    enabled: isOn('system'),
    options: ({ config: { plugins: { system } } }) => (system === false ? undefined : system?.metrics) ?? {}
  }),
  idempotency: group(() => import('../plugins/idempotency/index.js'), { options: ({ env }) => keysOf(env) }),
  openapi: group(() => import('../plugins/openapi/index.js'), {
    enabled: isOn('openapi'),
    options: ({ config }) => ({ ...config.plugins.openapi || {}, title: titleOf(config) })
  }),
  // It closes after the queue, because the last jobs may call other services.
  outbound: group(() => import('../plugins/outbound/index.js'), { options: ({ config }) => ({ egress: config.egress }) }),
  integrations: group(() => import('../plugins/integrations/index.js'), {
    options: ({ connectors, config }) => ({ connectors, routes: config.plugins.integrations !== false })
  }),
  queue: group(() => import('../plugins/queue/index.js'), {
    options: ({ config }) => ({ ...config.queue, routes: config.plugins.system !== false })
  }),
  webhooks: group(() => import('../plugins/webhooks/index.js'), {
    enabled: isOn('webhooks'),
    options: ({ config, env }) => ({ ...keysOf(env), webhooks: config.webhooks, env, deliver: config.queue.workers > 0 })
  }),
  models: group(() => import('../plugins/models/index.js'), {
    enabled: ({ config: { agent } }) => agent !== undefined,
    options: ({ config }) => ({ ...config.agent, routes: config.plugins.agent !== false })
  }),
  embeddings: group(() => import('../plugins/embeddings/index.js'), {
    enabled: ({ config: { agent } }) => agent?.embedding !== undefined,
    options: ({ config: { agent, plugins } }) => ({ ...embeddingOptions(agent), routes: plugins.agent !== false })
  }),
  workflows: group(() => import('../plugins/workflows/index.js'), {
    options: ({ config, connectors, env }) => ({ config, connectors, env, routes: config.plugins.agent !== false })
  }),
  tools: group(() => import('../plugins/tools/index.js'), { options: none }),
  agent: group(() => import('../plugins/agent/index.js'), {
    enabled: ({ config }) => config.agent !== undefined,
    options: ({ config: { agent, plugins } }) => ({
      chat: agent?.chat,
      maxOutputTokens: agent?.llm?.maxOutputTokens,
      routes: plugins.agent !== false
    })
  }),
  'mcp-client': group(() => import('../plugins/mcp-client/index.js'), {
    enabled: ({ config: { agent } }) => agent !== undefined,
    options: ({ config: { agent, plugins } }) => ({
      servers: agent?.mcpServers ?? [],
      maxProcesses: agent?.mcpMaxProcesses,
      routes: plugins.agent !== false
    })
  }),
  mcp: group(() => import('../plugins/mcp/index.js'), {
    enabled: ({ config }) => config.mcp !== undefined && config.plugins.agent !== false,
    options: ({ config }) => ({
      ...config.mcp ?? { url: '' },
      name: titleOf(config),
      issuers: Object.values(config.authProviders).map(({ issuer }) => issuer)
    })
  }),
  cache: group(() => import('../plugins/cache/index.js'), {
    options: ({ config }) => ({ ...config.cache, routes: config.plugins.system !== false })
  }),
  audit: group(() => import('../plugins/audit/index.js'), {
    options: ({ config: { plugins: { audit } } }) => audit === false ? { routes: false } : audit ?? {}
  }),
  secrets: group(() => import('../plugins/secrets/index.js'), { enabled: isOn('secrets'), options: ({ env }) => keysOf(env) }),
  'resource-limits': group(() => import('../plugins/resource-limits/index.js'), { enabled: isOn('resource-limits'), options: none }),
  'tenant-config': group(() => import('../plugins/tenant-config/index.js'), {
    enabled: isOn('tenant-config'),
    options: ({ config, env }) => ({ config, env })
  }),
  tenants: group(() => import('../plugins/tenants/index.js'), { options: none }),
  billing: group(() => import('../plugins/billing/index.js'), { enabled: isOn('billing'), options: ({ config }) => config.billing ?? {} }),
  'tenant-billing': group(() => import('../plugins/tenant-billing/index.js'), {
    enabled: (assembly) => isOn('secrets')(assembly) && isOn('tenant-billing')(assembly),
    options: ({ env }) => ({ baseUrl: setting(env, 'PAYPROV_BASE_URL')?.trim() || undefined })
  }),
  'api-keys': group(() => import('../plugins/api-keys/index.js'), { enabled: isOn('api-keys'), options: none }),
  'tenant-rbac': group(() => import('../plugins/tenant-rbac/index.js'), { enabled: isOn('tenant-rbac'), options: none }),
  rbac: group(() => import('../plugins/rbac/index.js'), {
    enabled: ({ config }) => config.database.roleTables !== undefined,
    options: ({ config }) => ({ defaultRole: config.rbac.defaultRole })
  }),
  sessions: group(() => import('../plugins/sessions/index.js'), {
    enabled: hasLogins,
    options: ({ config: { auth } }) => ({ refreshDays: auth.refreshDays })
  }),
  mail: group(() => import('../plugins/mail/index.js'), {
    enabled: hasLogins,
    options: ({ config: { auth }, env, deliverMail }) => ({
      mail: auth.mail,
      links: auth.links,
      appUrl: setting(env, 'APP_URL') || undefined,
      deliver: deliverMail
    })
  }),
  users: group(() => import('../plugins/users/index.js'), {
    enabled: hasLogins,
    options: ({ config }) => ({ routes: config.plugins.users !== false })
  }),
  mfa: group(() => import('../plugins/mfa/index.js'), {
    enabled: (assembly) => assembly.config.jwt !== undefined && assembly.config.mfa.enabled !== false && isOn('mfa')(assembly),
    options: ({ config, env }) => ({ ...keysOf(env), enabled: config.mfa.enabled, issuer: config.mfa.issuer ?? titleOf(config) })
  }),
  login: group(() => import('../plugins/login/index.js'), {
    enabled: hasLogins,
    options: ({ config: { auth } }) => ({ registration: auth.registration })
  }),
  passwords: group(() => import('../plugins/passwords/index.js'), { enabled: hasLogins, options: none }),
  files: group(() => import('../plugins/files/index.js'), {
    enabled: (assembly) => assembly.config.files.enabled !== false && isOn('files')(assembly),
    options: ({ config: { files, storageProvider, s3 }, env }) => ({ ...files, ...keysOf(env), storageProvider, s3 })
  }),
  realtime: group(() => import('../plugins/realtime/index.js'), {
    enabled: (assembly) => assembly.config.realtime.enabled !== false && isOn('realtime')(assembly),
    options: ({ config: { cache, realtime } }) => ({
      ...cache.provider === 'redis' && cache.redis !== undefined && { redis: cache.redis },
      ...realtime
    })
  }),
  admin: group(() => import('../plugins/admin/index.js'), { enabled: isOn('admin'), options: none }),
  health: group(() => import('../plugins/health/index.js'), { enabled: isOn('health'), options: none }),
  system: group(() => import('../plugins/system/index.js'), {
    enabled: isOn('system'),
    options: ({ config }) => ({ configurationVersion: () => versionOf(config), off: turnedOff(config.plugins) })
  }),
  migration: group(() => import('../plugins/migration/index.js'), {
    enabled: isOn('migration'),
    options: ({ config, env }) => ({ production: env.NODE_ENV === 'production', firestoreRules: securityRules(config) })
  }),
  publish: group(() => import('../plugins/publish/index.js'), { enabled: isOn('publish'), options: none }),
  'config-routes': group(() => import('../plugins/config-routes/index.js'), { options: ({ config, connectors, env }) => ({ config, connectors, env }) })
} satisfies Record<string, Group<Assembly>>

const requestTimeout = 120_000 // ms to receive the whole request; slower callers would hold a connection for nothing

/** Settings that are not part of the document. */
export interface ServerOptions {
  /** The source of `{{env.NAME}}`, JWT_SECRET and other settings. Default: the `env` of `loadConfig`, else the process's environment. */
  readonly env?: Env
  /** Fastify's `logger`. Default: pino at the level that LOG_LEVEL names, `info` without one. */
  readonly logger?: FastifyServerOptions['logger']
  /** Receives the users' mails instead of the connector of `auth.mail`, for example to print them. Their links are secrets. */
  readonly deliverMail?: Deliver | undefined
}

const optionChecks: OptionChecks<ServerOptions> = {
  env: record,
  logger: (value) => typeof value === 'boolean' || record(value) === undefined ? undefined : 'expected a boolean, or options of pino',
  deliverMail: handler
}

/**
 * Turns a document into a Fastify server. The server is returned at once and its routes register through the plugin queue. So
 * both `createServer(config).listen({ port })` and `await createServer(config)` work. Throws for an unknown option, and a ConfigError
 * with every fault of the document. `ready` rejects with a ConfigError if the database lacks a declared table or column, and with
 * `databaseUnavailable` if it cannot be reached.
 */
export function createServer (document: ConfigInput | Config, options: ServerOptions = {}): FastifyInstance {
  checkOptions('createServer', optionChecks, options, false)
  const config = isChecked(document) ? document : checkConfig(document, { env: options.env })
  const env = options.env ?? environmentOf(config)
  const { trustProxy } = config.server
  const app = Fastify({
    logger: loggerOptions(options.logger ?? { level: logLevel(env) }),
    logController: new RequestLog(options.logger !== false),
    genReqId: requestIds(),
    // Plugins wait for the database, which has its own timeouts, and for migrations, which have none.
    pluginTimeout: 0,
    http: headerOptions,
    requestTimeout,
    bodyLimit: config.server.bodyLimit,
    routerOptions: { maxParamLength },
    schemaController: { compilersFactory: { buildSerializer, buildValidator } },
    // Errors before routing have the same body as every other error.
    frameworkErrors: handleUnroutedError,
    clientErrorHandler: handleClientError,
    // Fastify trusts no proxy if the option is a number.
    trustProxy: typeof trustProxy === 'number' ? (_address: string, hop: number) => hop < trustProxy : trustProxy,
    ...serverOptions
  })

  // Node would refuse unknown expectations with an empty 417. RFC 9110 (10.1.1) lets a server ignore them.
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response))
  passAllHeaders(app)
  app.addHook('onRequest', limitPipelining)
  app.addHook('onRequest', checkHeaders)
  // Before the other hooks, so that it also sees requests that they reject.
  logAbortedRequests(app)
  const assembly = assemblyOf(config, env, options.deliverMail)
  app.register(fp(async () => {
    // Before the migrations: a start that is bound to fail leaves the database unchanged.
    if (config.database.provider === 'postgres' && config.plugins.secrets !== false) await openKeys('postgres', keysOf(env))
    const enabled: Group<Assembly>[] = Object.values(groups).filter(({ isEnabled }) => isEnabled(assembly))
    const loaded = await Promise.all(enabled.map(async ({ load }) => await load()))
    for (const entry of sortPlugins(loaded)) entry.register(app, assembly)
  }, { name: 'tenantry' }))
  return app
}

export function assemblyOf (config: Config, env: Env, deliverMail?: Deliver): Assembly {
  return { config, env, connectors: platformConnectors(config, env, config.tenancy.overridableEnv), deliverMail }
}

/** The name of the API, if the document sets one. */
function titleOf ({ name, plugins: { openapi } }: Config): string | undefined {
  return (openapi === false ? undefined : openapi?.title) ?? name
}

/** The response to `GET /` if no route has that path. */
function homeOf (config: Config, env: Env): Home {
  const { plugins: { openapi, health } } = config
  const links = {
    ...openapi !== false && openapi?.ui !== false && { documentation: '/ui' },
    ...openapi !== false && { openapi: '/doc' },
    ...health !== false && { health: '/health' }
  }
  const apiVersion = openapi === false ? undefined : openapi?.version
  return {
    name: titleOf(config) ?? 'API',
    version: apiVersion ?? version,
    links,
    redirect: setting(env, 'NODE_ENV') === 'production' ? undefined : links.documentation
  }
}

function turnedOff (plugins: Config['plugins']): string[] {
  return Object.entries(plugins).filter(([, options]) => options === false).map(([name]) => name)
}

function keysOf (env: Env): KeyOptions {
  return { masterKey: setting(env, 'SECRETS_MASTER_KEY'), previousKeys: setting(env, 'SECRETS_PREVIOUS_KEYS') }
}

const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']

/** Reads LOG_LEVEL; an empty value counts as unset. */
function logLevel ({ LOG_LEVEL: level }: Env): string {
  if (level === undefined || level === '') return 'info'
  if (!logLevels.includes(level)) throw new Error(`the setting LOG_LEVEL is "${level}": expected one of ${logLevels.join(', ')}`)
  return level
}
