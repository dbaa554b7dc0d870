/** The parts of an app that declared routes use. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { whenKnown } from '../../lib/cache/async-cache.js'
import { createWarned } from '../../lib/cache/warned.js'
import type { RouteReply } from '../../lib/http/route-reply.js'
import { optional } from '../../lib/plugin/define.js'
import type { RouteCall } from '../../lib/runtime/route-call.js'
import type { RouteServices } from '../../lib/runtime/services.js'
import { hasPermission, requirePermissions } from '../auth/access.js'
import { limitedUser } from '../resource-limits/service.js'
import { requireSameLife } from '../tenancy/tenant.js'
import { createInbound } from './inbound.js'
import type { WebhookDeduplication } from './webhook-deduplication.js'
import { runRouteWorkflow } from './workflow.js'

/** The services for HTTP requests. */
export interface Serving extends RouteServices<FastifyRequest, FastifyReply> {
  readonly runWorkflow: RouteServices<RouteCall, RouteReply>['runWorkflow']
}

export interface ServingOptions {
  readonly dashboardPermission: string | undefined
  readonly overridableEnv?: readonly string[]
  /** The setting APP_URL: a further address that senders may sign. Default: none. */
  readonly appUrl: string | undefined
  readonly deduplication: WebhookDeduplication
  readonly prefix: string
}

/** Collects the services from the plugins of the app. */
export function servingOf (
  app: FastifyInstance,
  { dashboardPermission, overridableEnv = [], appUrl = '', deduplication, prefix }: ServingOptions
): Serving {
  const { engine } = app
  const [secrets, cache, limits] = [optional(app, 'secrets')(), optional(app, 'cache')(), optional(app, 'resourceLimits')()]
  const [integrations, realtime] = [optional(app, 'integrations'), optional(app, 'realtime')]
  const [tenants, workflows] = [optional(app, 'tenants')(), optional(app, 'workflows')()]
  const workflowServing = { engine, tenants, cache, limits, integrations, workflows }
  const warned = createWarned()
  return {
    engine,
    firestore: app.firestore,
    cache,
    loads: new Map(),
    access: { requirePermissions, hasPermission },
    limits: limits === null ? null : { take: (request, use) => limits.take(limitedUser(request), use) },
    integrations,
    runWorkflow: (started, start) => runRouteWorkflow(started, start, workflowServing),
    secrets,
    overridableEnv: new Set(overridableEnv),
    warned,
    webhooks: optional(app, 'webhooks')(),
    dashboardPermission,
    idempotency: optional(app, 'idempotency')(),
    files: optional(app, 'routeFiles'),
    realtime () {
      const rooms = realtime()
      if (rooms === null || tenants === null) return null
      // The calls of the route may have taken long.
      return { publish: (tenant, message) => whenKnown(requireSameLife(tenants, tenant), () => rooms.publish(tenant.id, message)) }
    },
    prefix,
    inbound: createInbound(app, { secrets, appUrl: appUrl.trim().replace(/\/+$/, ''), warned, deduplication })
  }
}

/** The services for calls within this process. Such calls have no forms and no signatures. */
export function servingCalls (serving: Serving): RouteServices<RouteCall, RouteReply> {
  return {
    ...serving,
    files: () => null,
    inbound () {
      throw new Error('a webhook accepts only signed requests')
    }
  }
}
