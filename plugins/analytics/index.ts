/**
 * Figures of requests by tenant and route: how many, how many failed, and how long they took; `app.analytics` and its
 * endpoint. It counts the requests of routes that are registered after it, and those of unknown paths. It stores no body,
 * query string, id or address.
 */
import type {} from '../database/index.js'
import type {} from '../tenancy/index.js'
import type {} from '../tenant-config/serve.js'
import type { FastifyRequest } from 'fastify'
import type { TenantRoute } from '../tenant-config/tenant-routes.js'
import { Analytics as AnalyticsSection } from '../../lib/schema/analytics.js'
import { definePlugin } from '../../lib/plugin/define.js'
import { callback, membersOf } from '../../lib/plugin/options.js'
import { endStatusOf, whenEnded } from '../../lib/plugin/request-end.js'
import { sweepHourly } from '../../lib/plugin/sweep.js'
import { dayMs } from '../../lib/time/spans.js'
import { createBuffer } from './buffer.js'
import { createExclusion, RouteLines, unknownRoute } from './lines.js'
import { analyticsRoutes } from './routes.js'
import { createAnalytics, type Analytics } from './service.js'
import { createStatsStore } from './store.js'
import { tenantOrPlatform } from '../../lib/identity/tenant-ref.js'

export type { Range } from './range.js'
export type { Analytics } from './service.js'
export type { Figures } from './store.js'

/** Marks the configuration of routes that are counted. */
const counted = Symbol('tenantry.analytics.counted')

declare module 'fastify' {
  interface FastifyInstance {
    analytics: Analytics
  }
  interface FastifyContextConfig {
    /** The lines of the route; those of a route that takes every path depend on the request. */
    [counted]?: RouteLines | 'any path'
  }
}

const pauseMs = 1000 // between flushes that a number of requests asks for, so that a busy server writes larger batches

/** The document's `analytics`. */
export interface AnalyticsOptions {
  /** Accepted as a member of the section; a registered plugin counts. */
  readonly enabled?: boolean | undefined
  /** Patterns of routes that are not counted; one that ends in `*` stands for all that begin like it. Default: none. */
  readonly excludePaths?: readonly string[] | undefined
  /** Servers of one name share their figures, those of other names on the same database have their own. Default: the empty name. */
  readonly serviceName?: string | undefined
  /** Days, 1 to 366, for which figures are kept. Default: 30. */
  readonly retentionDays?: number | undefined
  readonly buffer?: {
    /** `false`: each request is written when it has been answered. Default: true. */
    readonly enabled?: boolean | undefined,
    /** Milliseconds, 1 to 3,600,000, after which what was counted is written. Default: 10,000. */
    readonly flushInterval?: number | undefined,
    /** Requests, 1 to 100,000, that are written before their time, once a second at most. Default: 1000. */
    readonly maxSize?: number | undefined
  } | undefined
  /** The clock, in milliseconds since 1970. Default: the system's. */
  readonly now?: (() => number) | undefined
}

export default definePlugin<AnalyticsOptions>({
  name: 'analytics',
  dependencies: ['database'],
  routeDependencies: ['auth'],
  optional: ['tenancy', 'tenant-config'],
  observesRoutes: true,
  options: { ...membersOf(AnalyticsSection), now: callback },
  setup (
    app,
    {
      excludePaths = [],
      serviceName = '',
      retentionDays = 30,
      buffer: { enabled = true, flushInterval = 10_000, maxSize = 1000 } = {},
      now = Date.now
    }
  ) {
    const store = createStatsStore(app.db, serviceName)
    const buffer = createBuffer({
      write: (batch) => store.write(batch, new Date(now())),
      log: app.log,
      now,
      flushInterval,
      ...enabled ? { maxSize, pause: pauseMs } : { maxSize: 1, pause: 0 }
    })
    app.decorate('analytics', createAnalytics({ store, buffer, retentionDays }))
    app.addHook('onClose', () => buffer.close())
    sweepHourly(app, 'old figures of requests', () => store.sweep(new Date(now() - retentionDays * dayMs), new Date(now())))

    const isExcluded = createExclusion(excludePaths)
    const unknown = new RouteLines(unknownRoute)
    const tenantLines = new WeakMap<TenantRoute, RouteLines | 'excluded'>()

    /** The lines of a route that a tenant declared, looked for once. */
    function linesOf (route: TenantRoute): RouteLines | 'excluded' {
      const { path } = route.declared
      const lines = isExcluded(path) ? 'excluded' : new RouteLines(path, true)
      tenantLines.set(route, lines)
      return lines
    }

    /** What the request is counted under; undefined where it is not counted. */
    function linesFor (request: FastifyRequest): RouteLines | undefined {
      const { url, config } = request.routeOptions
      if (url === undefined) return unknown
      const lines = config[counted]
      if (lines !== 'any path') return lines
      // There is none without the plugin tenant-config.
      const route: TenantRoute | null | undefined = request.tenantRoute
      if (route === null || route === undefined) return unknown
      const own = tenantLines.get(route) ?? linesOf(route)
      return own === 'excluded' ? undefined : own
    }

    app.addHook('onRoute', (route) => {
      const lines = route.routePath === '/*' ? 'any path' : isExcluded(route.url) ? undefined : new RouteLines(route.url)
      if (lines !== undefined) route.config = Object.assign({}, route.config, { [counted]: lines })
    })
    whenEnded(app, (request, reply, ms) => {
      const lines = linesFor(request)
      // Of a rate limit's refusals it is their own, so that none is an error of the server.
      if (lines !== undefined) buffer.count(tenantOrPlatform(request.tenant), lines.of(request.method, endStatusOf(request, reply)), ms)
    })
    return (group) => analyticsRoutes(group, now)
  }
})
