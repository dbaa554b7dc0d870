/** The declared routes at work: the compiled version that serves now, the readiness of the database, and the handler of each route. */
import type { FastifyBaseLogger, FastifyInstance, HTTPMethods } from 'fastify'
import { compileDocument, type CompiledParts } from '../../lib/compiler/document.js'
import { documentRoute, type RouteDocumentation } from '../../lib/compiler/documentation.js'
import type { CompiledRoute } from '../../lib/compiler/route.js'
import type { RouteContext } from '../../lib/compiler/route-context.js'
import { readsByPath } from '../../lib/compiler/write-headers.js'
import type { Engine } from '../../lib/database/engine.js'
import { toolOf } from '../../lib/document/rules/tools.js'
import { failure, type TenantryError } from '../../lib/errors.js'
import { SecretUses } from '../../lib/expressions/secret-uses.js'
import { prefixOf } from '../../lib/http/prefix.js'
import { optional } from '../../lib/plugin/define.js'
import { RouteRequest } from '../../lib/runtime/route-request.js'
import type { Origin } from '../../lib/runtime/services.js'
import { FaultList, formatFault } from '../../lib/schema/faults.js'
import { acceptForms, leaveOtherBodies } from '../files/multipart.js'
import type { ServeCall } from '../tools/types.js'
import { type Serving, servingCalls } from './serving.js'
import { keepSignedBodies } from './signed-body.js'

const recheckAfter = 1000 // ms between checks of a database with pending migrations, or with tables that a route does not fit
const retryAfter = { 'retry-after': String(recheckAfter / 1000) }

export type Readiness = Awaited<ReturnType<typeof createReadiness>>

const made = new WeakMap<Engine, Promise<Readiness>>()

/** The readiness that all routes on an engine share. */
export function readinessOf (engine: Engine, log: FastifyBaseLogger): Promise<Readiness> {
  const readiness = made.get(engine) ?? createReadiness(engine, log)
  made.set(engine, readiness)
  return readiness
}

async function createReadiness (engine: Engine, log: FastifyBaseLogger) {
  let pending = !engine.isMigrated && (await engine.pendingMigrations()).length > 0
  let lookedAt = performance.now()
  let refreshedAt = -Infinity

  async function recheck (): Promise<void> {
    if (performance.now() - lookedAt < recheckAfter) throw failure('migrationPending', { headers: retryAfter })
    lookedAt = performance.now()
    if ((await engine.pendingMigrations()).length > 0) throw failure('migrationPending', { headers: retryAfter })
    await engine.refresh()
    pending = false
  }

  return {
    /**
     * Answers a request at once if the database is migrated. Otherwise checks again, and rejects with `migrationPending` if
     * migrations are still pending.
     */
    whenMigrated: <Body>(handle: () => Promise<Body>): Promise<Body> => pending ? recheck().then(handle) : handle(),
    /**
     * The error for a route that no longer fits the tables. Also rereads the tables: such a route runs no statement whose failure
     * would show a later change.
     */
    schemaChanged (): TenantryError {
      if (performance.now() - refreshedAt >= recheckAfter) {
        refreshedAt = performance.now()
        engine.refresh().catch((err: unknown) => log.warn({ err }, 'the schema of the database could not be read again'))
      }
      return failure('schemaChanged', { headers: retryAfter })
    }
  }
}

/**
 * The compiled routes that serve now. When the database's tables change, all routes are recompiled off the request path and
 * swapped in one step. A request in progress finishes on the routes it started with.
 */
export type Generation = ReturnType<typeof createGeneration>

/** Compiles every route. Throws one ConfigError with the faults of all routes. */
export function createGeneration (
  document: CompiledParts,
  context: Omit<RouteContext, 'faults' | 'catalogue' | 'workflows'>,
  engine: Engine,
  log: FastifyBaseLogger
) {
  const faults = new FaultList()
  const secretUses = new SecretUses()
  let current = compileDocument(document, { ...context, catalogue: engine.catalogue, faults, secretUses })
  faults.throwIfAny()
  const secretSettings = new Set([...secretUses.parts.values()].flatMap(({ settings }) => [...settings]))
  const routes = document.routes.flatMap(({ value }, index) => {
    const compiled = current[index]
    return compiled === null || compiled === undefined ? [] : [{ declared: value, compiled }]
  })
  const latest = [...routes]

  const end = engine.onCatalogue((catalogue) => {
    const found = new FaultList()
    current = compileDocument(document, { ...context, catalogue, faults: found })
    for (const [index, compiled] of current.entries()) if (compiled !== null) latest[index] = { ...routes[index]!, compiled }
    for (const fault of found.faults) log.error(`the database no longer fits the document: ${formatFault(fault)}`)
  })

  const reads = readsByPath(routes.keys(), (index) => routes[index]!.declared)
  const readOf = (index: number) => reads.get(routes[index]!.declared.path) ?? -1

  return {
    /** Each route's declaration and its first compilation, in the order of the document. */
    routes,
    /** The settings of tenants that parts read which use a secret or start a workflow that does; null for all settings. */
    secretSettings,
    /** The route that serves now; null if it no longer fits the database. */
    route: (index: number): CompiledRoute | null => current[index] ?? null,
    /** The `GET` route that serves now on the same path; null if there is none. */
    readOnPath: (index: number): CompiledRoute | null => current[readOf(index)] ?? null,
    /** The documentation of the route that serves now. If the route no longer fits the database, that of its last working version. */
    documentation (index: number): RouteDocumentation | undefined {
      const route = latest[index]
      return route === undefined ? undefined : documentRoute(route.declared, route.compiled, latest[readOf(index)]?.compiled)
    },
    close: end
  }
}

/** Routes with webhooks, and those with files, have contexts with parsers of their own. */
export async function mountRoutes (group: FastifyInstance, generation: Generation, readiness: Readiness, serving: Serving): Promise<void> {
  const { routes } = generation
  const calls = servingCalls(serving)
  const mountAll = (app: FastifyInstance, isOne: (route: CompiledRoute) => boolean) => {
    for (const [index, { compiled }] of routes.entries()) if (isOne(compiled)) mount(app, generation, index, readiness, { serving, calls })
  }
  mountAll(group, ({ webhook, files }) => webhook === null && files === null)
  await group.register(async (signed) => {
    keepSignedBodies(signed, () => true)
    mountAll(signed, ({ webhook }) => webhook !== null)
  })
  if (!routes.some(({ compiled }) => compiled.files !== null)) return
  await group.register(async (forms) => {
    await acceptForms(forms)
    leaveOtherBodies(forms)
    mountAll(forms, ({ files }) => files !== null)
  })
}

/**
 * The methods of a route. `HEAD` is part of the `GET` route, and Node omits the body: a route of its own, as Fastify adds it, would take
 * as much time and memory at the start as the `GET` route. Without the plugin `openapi`, an app's own @fastify/swagger would list such a
 * `HEAD`.
 */
function methodsOf (group: FastifyInstance, { method }: CompiledRoute, path: string): HTTPMethods | HTTPMethods[] {
  const { initialConfig } = group
  const exposes = !('exposeHeadRoutes' in initialConfig) || initialConfig.exposeHeadRoutes !== false
  if (method !== 'GET' || !exposes || optional(group, 'openapi')() === null) return method
  return group.hasRoute({ method: 'HEAD', url: prefixOf(group) + path }) ? method : [method, 'HEAD']
}

interface Services {
  readonly serving: Serving
  readonly calls: ReturnType<typeof servingCalls>
}

function mount (group: FastifyInstance, generation: Generation, index: number, readiness: Readiness, { serving, calls }: Services): void {
  const { declared, compiled: route } = generation.routes[index]!
  const tool = toolOf(declared)
  const origin: Origin = { generation: '', placeOf: (pointer) => pointer, readOnPath: () => generation.readOnPath(index) }
  const current = (): CompiledRoute => {
    const compiled = generation.route(index)
    if (compiled === null) throw readiness.schemaChanged()
    return compiled
  }
  const serve: ServeCall = (call, reply) => readiness.whenMigrated(() => new RouteRequest(current(), calls, call, reply, origin).handle())
  group.route({
    method: methodsOf(group, route, declared.path),
    url: declared.path,
    config: {
      access: route.requireAuth ? 'user' : 'open',
      authProvider: route.authProvider,
      publicTenant: route.publicTenant,
      countsUnauthenticated: route.webhook === null ? true : 'signed',
      tenantInQuery: route.webhook !== null,
      ...route.files !== null && { streamsBody: 'form' as const },
      // The limit of unauthenticated callers does not apply to a signed request.
      ...(route.rateLimit !== null ? { rateLimitRule: route.rateLimit } : route.webhook !== null && { rateLimitRule: false }),
      ...tool !== undefined && { tool: { ...tool, permissions: route.permissions, ...route.files === null && { serve } } },
      openapi: () => generation.documentation(index) ?? documentRoute(declared, route)
    },
    handler: (request, reply) => readiness.whenMigrated(() => new RouteRequest(current(), serving, request, reply, origin).serve())
  })
}
