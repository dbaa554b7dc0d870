/** Assembles the server: the one file of lib/ that knows the plugins. */
import type { FastifyInstance, FastifyServerOptions } from 'fastify'
import Fastify from 'fastify'
import fp from 'fastify-plugin'
import { checkConfig, environmentOf, isChecked, versionOf, type Config, type ConfigInput, type Env } from './config/index.js'
import { setting } from './config/environment.js'
import { canSign } from './config/meaning/auth.js'
import { platformConnectors } from './connectors/index.js'
import admin from '../plugins/admin/index.js'
import analytics, { analyticsRoutes } from '../plugins/analytics/index.js'
import apiKeys from '../plugins/api-keys/index.js'
import audit, { auditRoutes } from '../plugins/audit/index.js'
import auth from '../plugins/auth/index.js'
import billing from '../plugins/billing/index.js'
import cache, { cacheRoutes } from '../plugins/cache/index.js'
import { configRoutes } from '../plugins/config-routes/index.js'
import conventions from '../plugins/conventions/index.js'
import { answerClientError } from './http/client-error.js'
import { answerError } from './http/error-handler.js'
import database from '../plugins/database/index.js'
import health from '../plugins/health/index.js'
import { integrationRoutes, integrations } from '../plugins/integrations/index.js'
import login from '../plugins/login/index.js'
import mfa from '../plugins/mfa/index.js'
import metrics, { metricsRoutes } from '../plugins/metrics/index.js'
import migration from '../plugins/migration/index.js'
import openapi from '../plugins/openapi/index.js'
import outbound from '../plugins/outbound/index.js'
import plans, { planRoutes } from '../plugins/plans/index.js'
import publish from '../plugins/publish/index.js'
import queue, { queueRoutes } from '../plugins/queue/index.js'
import rateLimit from '../plugins/rate-limit/index.js'
import rbac from '../plugins/rbac/index.js'
import { endStatusOf, wasSent, whenEnded } from './plugin/request-end.js'
import resourceLimits from '../plugins/resource-limits/index.js'
import responses from '../plugins/responses/index.js'
import sessions from '../plugins/sessions/index.js'
import stop from '../plugins/stop/index.js'
import secrets, { type SecretsOptions } from '../plugins/secrets/index.js'
import system from '../plugins/system/index.js'
import tenancy, { tenantRoutes } from '../plugins/tenancy/index.js'
import tenantBilling from '../plugins/tenant-billing/index.js'
import { tenantConfig } from '../plugins/tenant-config/index.js'
import tenantRbac from '../plugins/tenant-rbac/index.js'
import usage, { usageRoutes } from '../plugins/usage/index.js'
import users from '../plugins/users/index.js'
import webhooks, { webhookRoutes } from '../plugins/webhooks/index.js'
import { workflowRoutes, workflows } from '../plugins/workflows/index.js'
import { openKeys } from './secrets/open-keys.js'
import { requestIds } from './request-id.js'
import { buildSerializer } from './serialization.js'
import { loggerOptions } from './log/options.js'
import { logAborted, RequestLog } from './log/request-log.js'

const requestTimeout = 120_000 // ms that a request has to arrive as a whole; a caller that sends slower holds a connection for nothing
const maxParamLength = 2048 // characters of one path parameter: a document's id of 512, percent-encoded, and to spare

/** What the document does not say. */
export interface ServerOptions {
  /** What `{{env.NAME}}`, JWT_SECRET and the other settings are read from. Default: that of `loadConfig`, else the process's environment. */
  readonly env?: Env
  /** Fastify's `logger`. Default: pino at the level that LOG_LEVEL names, `info` without one. */
  readonly logger?: FastifyServerOptions['logger']
}

/**
 * Turns a document into a Fastify server. It is returned at once and routes register through the plugin queue, so
 * both `createServer(config).listen({ port })` and `await createServer(config)` work.
 *
 * Throws a ConfigError that holds every fault of the document; `ready` rejects with one where the document names a
 * table or column that the database lacks, and with `databaseUnavailable` where there is no database.
 */
export function createServer (document: ConfigInput | Config, options: ServerOptions = {}): FastifyInstance {
  const config = isChecked(document) ? document : checkConfig(document, { env: options.env })
  const env = options.env ?? environmentOf(config)
  const connectors = platformConnectors(config, env, config.tenancy.overridableEnv)
  const { trustProxy } = config.server
  const app = Fastify({
    logger: loggerOptions(options.logger ?? { level: logLevel(env) }),
    logController: new RequestLog(options.logger !== false),
    genReqId: requestIds(),
    // Plugins wait for the database, which has its own limits of time, and for migrations, which have none.
    pluginTimeout: 0,
    requestTimeout,
    bodyLimit: config.server.bodyLimit,
    routerOptions: { maxParamLength },
    schemaController: { compilersFactory: { buildSerializer } },
    // What fails before a route is found has the same body as every other error.
    frameworkErrors: answerError,
    clientErrorHandler: answerClientError,
    trustProxy: typeof trustProxy === 'number' ? (_address: string, hop: number) => hop < trustProxy : trustProxy,
    ...stop.serverOptions
  })

  whenEnded(app, (request, reply, ms) => {
    // Fastify tells of answers that were sent, and of errors.
    if (!wasSent(reply) && reply.raw.errored === null) logAborted(request, endStatusOf(request, reply), ms)
  })
  app.register(conventions, { root: true, pagination: config.pagination })
  app.register(responses, { maxUnsentBytes: config.server.maxUnsentBytes, writeTimeoutMs: config.server.writeTimeoutMs })
  // Before the hooks that refuse requests, so that those are counted too.
  if (config.plugins.system !== false) app.register(metrics, config.plugins.system?.metrics ?? {})
  app.register(stop, { delayMs: config.server.stopDelayMs })
  // Before the database is migrated: a start that cannot succeed leaves no trace.
  if (config.database.provider === 'postgres' && config.plugins.secrets !== false) app.register(async () => { await openKeys('postgres', secretsOptions(env)) })
  app.register(database, { ...config.database, tables: config.tables, migrate: config.migrate })
  app.register(plans, { plans: config.plans })
  app.register(audit, config.plugins.audit || {})
  app.register(auth, { jwt: config.jwt, authProviders: config.authProviders, apiKey: setting(env, 'API_KEY') || undefined })
  app.register(tenancy, config.tenancy)
  // Closed after the queue, whose last jobs may call other services.
  app.register(outbound, { egress: config.egress })
  app.register(fp(integrations), { connectors })
  app.register(queue, config.queue)
  if (config.plugins.webhooks !== false) app.register(webhooks, { ...secretsOptions(env), webhooks: config.webhooks, env, deliver: config.queue.workers > 0 })
  app.register(fp(workflows), { ...config, connectors, env })
  if (config.plugins.usage !== false) app.register(usage)
  app.register(rateLimit, { redis: config.cache.provider === 'redis' ? config.cache.redis : undefined, ...config.rateLimit })
  app.register(cache, config.cache)

  const { plugins } = config
  // Before the routes whose requests it counts.
  const hasAnalytics = config.analytics.enabled && plugins.analytics !== false
  if (hasAnalytics) app.register(analytics, config.analytics)
  if (plugins.openapi !== false) app.register(openapi, { ...plugins.openapi, title: titleOf(config) })
  // Before the routes in whose place no tenant's may stand.
  if (plugins['tenant-config'] !== false) app.register(fp(tenantConfig), { ...config, env })
  app.register(tenantRoutes)
  if (plugins.billing !== false) app.register(planRoutes)
  if (plugins.billing !== false) app.register(billing, config.billing ?? {})
  if (plugins.usage !== false) app.register(usageRoutes, { report: plugins.billing !== false })
  if (plugins.audit !== false) app.register(auditRoutes)
  if (plugins.system !== false) app.register(metricsRoutes)
  if (plugins.system !== false) app.register(queueRoutes)
  if (plugins.system !== false) app.register(cacheRoutes)
  if (plugins.system !== false) app.register(system, { configurationVersion: versionOf(config), off: turnedOff(plugins) })
  if (plugins.secrets !== false) app.register(secrets, secretsOptions(env))
  if (plugins.secrets !== false && plugins['tenant-billing'] !== false) app.register(tenantBilling, { baseUrl: setting(env, 'PAYPROV_BASE_URL')?.trim() || undefined })
  if (plugins['api-keys'] !== false) app.register(apiKeys)
  if (plugins['tenant-rbac'] !== false) app.register(tenantRbac)
  if (config.database.roleTables !== undefined) app.register(rbac, { defaultRole: config.rbac.defaultRole })
  // Whoever can sign tokens has users who log in.
  const hasLogins = plugins.login !== false && config.jwt !== undefined && canSign(config.jwt)
  if (hasLogins) app.register(sessions)
  if (hasLogins) app.register(users)
  if (config.jwt !== undefined && config.mfa.enabled !== false && plugins.mfa !== false) {
    app.register(mfa, { ...secretsOptions(env), enabled: config.mfa.enabled, issuer: config.mfa.issuer ?? titleOf(config) })
  }
  if (hasLogins) app.register(login, config.auth)
  if (plugins['resource-limits'] !== false) app.register(resourceLimits)
  if (plugins.agent !== false) app.register(workflowRoutes)
  if (plugins.integrations !== false) app.register(integrationRoutes)
  if (plugins.webhooks !== false) app.register(webhookRoutes)
  if (hasAnalytics) app.register(analyticsRoutes)
  if (plugins.admin !== false) app.register(admin)
  if (plugins.health !== false) app.register(health)
  if (plugins.migration !== false) app.register(migration, { production: env.NODE_ENV === 'production' })
  if (plugins.publish !== false) app.register(publish)
  app.register(configRoutes, { ...config, connectors, env })
  return app
}

/** The name of the API, if the document has one. */
function titleOf ({ name, plugins: { openapi } }: Config): string | undefined {
  return (openapi === false ? undefined : openapi?.title) ?? name
}

/** The groups that the document turns off. */
function turnedOff (plugins: Config['plugins']): string[] {
  return Object.entries(plugins).filter(([, options]) => options === false).map(([name]) => name)
}

function secretsOptions (env: Env): SecretsOptions {
  return { masterKey: setting(env, 'SECRETS_MASTER_KEY'), previousKeys: setting(env, 'SECRETS_PREVIOUS_KEYS') }
}

const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']

/** The setting LOG_LEVEL; empty is unset. */
function logLevel ({ LOG_LEVEL: level }: Env): string {
  if (level === undefined || level === '') return 'info'
  if (!logLevels.includes(level)) throw new Error(`the setting LOG_LEVEL is "${level}": expected one of ${logLevels.join(', ')}`)
  return level
}
