/** Fails the start if a route asks for a guard (a token, a permission, a rate limit) and no plugin guards it. */
import { subscribe } from 'node:diagnostics_channel'
import type { FastifyContextConfig, FastifyInstance, RouteOptions } from 'fastify'
import { isRecord } from '../json/plain-value.js'

/** The plugins that act on routes, and the decorator that shows their presence in a context. */
const decorators = { auth: 'auth', tenancy: 'tenancy', 'rate-limit': 'rateLimiter', usage: 'usage', idempotency: 'idempotency' } as const
type Guard = keyof typeof decorators

type RequiredAccess = Pick<FastifyContextConfig, 'access' | 'permissions' | 'permission' | 'rateLimitRule' | 'addressLimit' | 'idempotency'>

interface Watched {
  readonly context: FastifyInstance
  readonly guardedBy: Set<Guard>
}

interface Watch {
  readonly routes: Map<RouteOptions, Watched>
  /** Plugins of this package are registered. */
  isUsed: boolean
}

/** By the HTTP server, which all contexts of an app share. */
const watches = new WeakMap<object, Watch>()

/** The contexts whose routes also work without the rate limits that they ask for. */
const withoutLimits = new WeakSet<FastifyInstance>()

/** Marks the config of routes in an app whose earlier routes are unknown. */
const seen = Symbol('tenantry.seen')

const maxNamed = 20 // routes in one message

// An app is watched from its creation: Fastify shows the config of a route only during registration.
subscribe('fastify.initialization', (message) => {
  if (isCreation(message)) watchFrom(message.fastify)
})

/** Checks the routes of the whole app when it is ready. */
export function watchRoutes (app: FastifyInstance): Watch {
  const watch = watches.get(app.server) ?? watchLate(app)
  watch.isUsed = true
  return watch
}

/** The routes of the whole app so far, until it is ready. */
export function routesOf (app: FastifyInstance): Iterable<RouteOptions> {
  return watchRoutes(app).routes.keys()
}

/** The routes of the context and of its children so far, each with its context, until the app is ready. */
export function routesWithin (app: FastifyInstance): Array<{ readonly route: RouteOptions, readonly context: FastifyInstance }> {
  return Array.from(watchRoutes(app).routes, ([route, { context }]) => ({ route, context })).filter(({ context }) => isWithin(context, app))
}

function isWithin (context: FastifyInstance, app: FastifyInstance): boolean {
  return context === app || Object.prototype.isPrototypeOf.call(app, context)
}

/** Calls `guard` for each later route of the context and of its children. */
export function guardRoutes (app: FastifyInstance, name: Guard, guard: (route: RouteOptions) => void): void {
  const watch = watchRoutes(app)
  app.addHook('onRoute', function (route) {
    watched(watch, this, route).guardedBy.add(name)
    guard(route)
  })
}

/** Lets the app start without the plugin rate-limit, although routes of the context ask for a limit. */
export function allowMissingLimits (context: FastifyInstance): void {
  withoutLimits.add(context)
}

/** Throws if earlier routes of the context, or of its children, ask for the plugin. */
export function refuseEarlierRoutes (
  app: FastifyInstance,
  name: Guard,
  asks: (config: FastifyContextConfig, context: FastifyInstance) => boolean
): void {
  for (const [{ method, url, config = {} }, { context }] of watchRoutes(app).routes) {
    if (isWithin(context, app) && method !== 'HEAD' && asks(config, context)) throw new Error(tooEarly(`${String(method)} ${url}`, name))
  }
}

function isCreation (message: unknown): message is { readonly fastify: FastifyInstance } {
  return isRecord(message) && isRecord(message['fastify'])
}

function watchFrom (root: FastifyInstance): Watch {
  const watch: Watch = { routes: new Map(), isUsed: false }
  watches.set(root.server, watch)
  root.addHook('onRoute', function (route) {
    watched(watch, this, route)
  })
  root.addHook('onReady', async () => {
    const faults = watch.isUsed ? [...faultsOf(watch)] : []
    watch.routes.clear()
    if (faults.length === 0) return
    const rest = faults.length > maxNamed ? `\n${faults.length - maxNamed} more` : ''
    throw new Error(faults.slice(0, maxNamed).join('\n') + rest)
  })
  return watch
}

function watched ({ routes }: Watch, context: FastifyInstance, route: RouteOptions): Watched {
  const known = routes.get(route)
  if (known !== undefined) return known
  const added = { context, guardedBy: new Set<Guard>() }
  routes.set(route, added)
  return added
}

/** The app is older than the import of this package: its earlier routes are unknown, and refuse requests that need a guard. */
function watchLate (app: FastifyInstance): Watch {
  const contexts = new Set([rootOf(app), app])
  const watch = watchFrom(rootOf(app))
  for (const context of contexts) {
    context.addHook('onRoute', function (route) {
      watched(watch, this, route)
      route.config = Object.assign({}, route.config, { [seen]: true })
    })
    context.addHook('onRequest', (request, _reply, done) => {
      const { config, method, url = '' } = request.routeOptions
      const route = `${String(method)} ${url}`
      const limit = limitOf(config)
      if (!(seen in config) && asksForCaller(config)) throw new Error(outside(route, config))
      if (!(seen in config) && limit !== undefined) throw new Error(unlimited(route, limit))
      done()
    })
  }
  return watch
}

/** The app of a context: Fastify creates a child context with its parent as prototype. */
export function rootOf (app: FastifyInstance): FastifyInstance {
  const parent: unknown = Object.getPrototypeOf(app)
  return isContext(parent) ? rootOf(parent) : app
}

function isContext (value: unknown): value is FastifyInstance {
  return isRecord(value) && 'server' in value && 'addHook' in value
}

function * faultsOf ({ routes }: Watch): Generator<string> {
  for (const [{ method, url, config: asked = {} }, { context, guardedBy }] of routes) {
    // Fastify adds it to a GET, which is named instead.
    if (method === 'HEAD') continue
    const route = `${String(method)} ${url}`
    const limit = limitOf(asked)
    for (const guard of guardsOf(asked)) {
      if (guardedBy.has(guard)) continue
      if (context.hasDecorator(decorators[guard])) yield tooEarly(route, guard)
      else if (guard === 'auth' && asksForCaller(asked)) yield outside(route, asked)
      else if (guard === 'rate-limit' && limit !== undefined && !withoutLimits.has(context)) yield unlimited(route, limit)
    }
  }
}

/** The guards that the route needs and its context has; `auth` even without it, unless the route is open. */
function guardsOf (asked: RequiredAccess): Guard[] {
  const { access, rateLimitRule, idempotency } = asked
  const isLimited = (access !== undefined && rateLimitRule !== false) || limitOf(asked) !== undefined
  const others: Guard[] = isLimited ? ['rate-limit'] : []
  if (idempotency !== undefined) others.push('idempotency')
  return access === 'open' || asksForCaller(asked) ? ['auth', 'tenancy', 'usage', ...others] : others
}

/** The member that asks for a limit of the route alone. */
function limitOf (asked: RequiredAccess): 'rateLimitRule' | 'addressLimit' | undefined {
  return (['rateLimitRule', 'addressLimit'] as const).find((member) => isRecord(asked[member]))
}

function asksForCaller ({ access, permissions = [], permission }: RequiredAccess): boolean {
  return (access !== undefined && access !== 'public' && access !== 'open') || permissions.length > 0 || permission !== undefined
}

function tooEarly (route: string, guard: Guard): string {
  return `the route ${route} was registered before the plugin "tenantry/plugins/${guard}", which therefore does not guard it: register and await the plugin first. In a server of createServer, declare the route within a plugin: app.register(async (app) => { ... })`
}

function outside (route: string, { access, permissions, permission }: RequiredAccess): string {
  const asked = JSON.stringify({ access, permissions, permission })
  return `the route ${route} has the config ${asked}, but the plugin "tenantry/plugins/auth" does not guard it: register and await the plugin before the route, in the same context or in a parent`
}

function unlimited (route: string, member: string): string {
  return `the route ${route} has \`${member}\`, but the plugin "tenantry/plugins/rate-limit" does not limit it: register and await the plugin before the route, in the same context or in a parent`
}
