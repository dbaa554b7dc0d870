/**
 * Figures of requests by tenant and route: counts, failures and durations; `app.analytics` and its endpoint. It counts requests of routes
 * that are registered after it, and those of unknown paths. It stores no body, query string, id or address.
 */
import type { FastifyRequest } from 'fastify'
import { platformRef } from '../../lib/identity/tenant-ref.js'
import { definePlugin } from '../../lib/plugin/define.js'
import { sweepHourly } from '../../lib/plugin/lifecycle.js'
import { callback, type ClockOption, membersOf } from '../../lib/plugin/options.js'
import { endStatusOf, whenEnded } from '../../lib/plugin/request-end.js'
import { Analytics as AnalyticsSection } from '../../lib/schema/analytics.js'
import { dayMs } from '../../lib/time/spans.js'
import type { TenantRoute } from '../tenant-config/tenant-routes.js'
import { createBuffer } from './buffer.js'
import { createExclusion, RouteLines, unknownRoute } from './lines.js'
import { analyticsRoutes } from './routes.js'
import { type Analytics, createAnalytics } from './service.js'
import { createStatsStore } from './store.js'

export type { Analytics } from './service.js'
export type { Figures, Range } from './store.js'

/** Marks the configuration of counted routes. */
const counted = Symbol('tenantry.analytics.counted')

declare module 'fastify' {
  interface FastifyInstance {
    analytics: Analytics
  }
  interface FastifyContextConfig {
    /** The lines of the route; those of a fallback route depend on the request. */
    [counted]?: RouteLines | 'any path'
  }
}

const pauseMs = 1000 // between early flushes, so that a busy server writes larger batches

/** The document's `analytics`. */
export interface AnalyticsOptions extends ClockOption {
  /** false: nothing is counted, and there are no endpoints. Default: true. */
  readonly enabled?: boolean | undefined
  /** Patterns of excluded routes; a `*` at the end matches all that begin like it. Default: none. */
  readonly excludePaths?: readonly string[] | undefined
  /** Servers of one name share their figures; other names on the same database have their own. Default: the empty name. */
  readonly serviceName?: string | undefined
  /** The days, 1 to 366, that figures are kept. Default: 30. */
  readonly retentionDays?: number | undefined
  readonly buffer?: {
    /** `false`: each request is written after its response. Default: true. */
    readonly enabled?: boolean | undefined,
    /** Milliseconds, 1 to 3,600,000, until counts are written. Default: 10,000. */
    readonly flushInterval?: number | undefined,
    /** The number of requests, 1 to 100,000, that triggers an earlier write, once a second at most. Default: 1000. */
    readonly maxSize?: number | undefined
  } | undefined
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
      enabled = true,
      excludePaths = [],
      serviceName = '',
      retentionDays = 30,
      buffer: { enabled: isBuffered = true, flushInterval = 10_000, maxSize = 1000 } = {},
      now = Date.now
    }
  ) {
    if (!enabled) return undefined
    const store = createStatsStore(app.db, serviceName)
    const buffer = createBuffer({
      write: (batch) => store.write(batch, new Date(now())),
      log: app.log,
      now,
      flushInterval,
      ...isBuffered ? { maxSize, pause: pauseMs } : { maxSize: 1, pause: 0 }
    })
    app.decorate('analytics', createAnalytics(store, buffer, retentionDays))
    app.addHook('onClose', () => buffer.close())
    sweepHourly(app, 'old figures of requests', () => store.sweep(new Date(now() - retentionDays * dayMs), new Date(now())))

    const isExcluded = createExclusion(excludePaths)
    const unknown = new RouteLines(unknownRoute)
    const tenantLines = new WeakMap<TenantRoute, RouteLines | 'excluded'>()

    /** The lines of a tenant's route, looked up once. */
    function linesOf (route: TenantRoute): RouteLines | 'excluded' {
      const { path } = route.declared
      const lines = isExcluded(path) ? 'excluded' : new RouteLines(path, true)
      tenantLines.set(route, lines)
      return lines
    }

    /** The line of the request; undefined if it is not counted. */
    function linesFor (request: FastifyRequest): RouteLines | undefined {
      const { url, config } = request.routeOptions
      if (url === undefined) return unknown
      const lines = config[counted]
      if (lines !== 'any path') return lines
      // Absent without the plugin tenant-config.
      const route: TenantRoute | null | undefined = request.tenantRoute
      if (route === null || route === undefined) return unknown
      const own = tenantLines.get(route) ?? linesOf(route)
      return own === 'excluded' ? undefined : own
    }

    app.addHook('onRoute', (route) => {
      const { url, config } = route
      const isFallback = config?.fallback === true || url === '/*'
      const lines = isFallback ? 'any path' : isExcluded(url) ? undefined : new RouteLines(url)
      if (lines !== undefined) route.config = Object.assign({}, config, { [counted]: lines })
    })
    whenEnded(app, (request, reply, ms) => {
      const lines = linesFor(request)
      // A rate limit may set any status: its refusals are never errors of the server.
      if (lines !== undefined) buffer.count(request.tenant?.life ?? platformRef, lines.of(request.method, endStatusOf(request, reply)), ms)
    })
    return (group) => analyticsRoutes(group, now)
  }
})
