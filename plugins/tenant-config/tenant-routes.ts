/**
 * The routes of one tenant's document. They have their own table, since Fastify's router accepts no routes after the start. A
 * route is compiled when it is first requested, and again after the tables of the database have changed.
 */
import { documentRoute, type RouteDocumentation } from '../../lib/compiler/documentation.js'
import type { CompiledRoute } from '../../lib/compiler/route.js'
import { methodOf } from '../../lib/compiler/route-parts.js'
import { readsByPath } from '../../lib/compiler/write-headers.js'
import { createYielder } from '../../lib/concurrency/event-loop-yielder.js'
import type { Catalogue } from '../../lib/database/catalogue.js'
import { placeOf as placeInWebhook } from '../../lib/document/webhook-routes.js'
import { failure, isFailure } from '../../lib/errors.js'
import type { PlaceOf } from '../../lib/expressions/condition.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { isRecord } from '../../lib/json/plain-value.js'
import type { Origin } from '../../lib/runtime/services.js'
import type { Route } from '../../lib/schema/route.js'
import { createRules, type Limit, type RateLimitOptions } from '../rate-limit/rules.js'
import type { WorkflowDocument } from '../workflows/documents.js'
import { type RouteMatch, RouteTable } from './route-table.js'

export interface TenantRoutes {
  /** The version of the document; 0 without one. */
  readonly version: number
  /** The memory of all routes when compiled, in quarters of a megabyte, rounded up. */
  readonly weight: number
  readonly routes: readonly TenantRoute[]
  /** The workflows of the document, and the context for compiling workflows that the tenant sends. */
  readonly workflows: WorkflowDocument
  /** The route for a method and an undecoded path without query string. */
  find(method: string, path: string): RouteMatch<TenantRoute> | null
  /** The methods of the routes that match the path and that `counts` accepts. */
  methodsOf(path: string, counts: (route: TenantRoute) => boolean): Set<string>
}

export interface TenantRoutesSource {
  readonly tenant: Owner
  /** Unique among all documents, also those of an earlier tenant with the same id. */
  readonly generation: string
  readonly routes: readonly { readonly pointer: string, readonly value: Route }[]
  readonly rateLimit?: RateLimitOptions | undefined
  readonly catalogue: () => Catalogue
  readonly compile: (route: Route, tables: Catalogue) => CompiledRoute | null
}

/** Yields to other work: a document may have hundreds of routes. */
export async function createTenantRoutes (source: TenantRoutesSource): Promise<Pick<TenantRoutes, 'routes' | 'find' | 'methodsOf'>> {
  const { tenant, rateLimit = { enabled: false } } = source
  const rules = createRules(rateLimit, tenant)
  const table = new RouteTable<TenantRoute>()
  const yielder = createYielder(tenant)
  const routes: TenantRoute[] = []
  for (const { value: declared, pointer } of source.routes) {
    const method = methodOf(declared)
    // Signed calls come from the few addresses of a service.
    const isUnlimited = declared.webhook !== undefined && declared.rateLimit === undefined
    const limit = isUnlimited ? null : rules.limitOf(declared.rateLimit ?? null, method, declared.path)
    const route = new TenantRoute(declared, pointer, limit, source)
    table.add(method, declared.path, route)
    routes.push(route)
    if (yielder.shouldYield()) await yielder.yield()
  }
  const reads = readsByPath(routes, ({ declared }) => declared)
  for (const route of routes) route.read = reads.get(route.declared.path)

  return {
    routes,
    // A HEAD is answered by the route of its GET.
    find: (method, path) => table.find(method === 'HEAD' ? 'GET' : method, path),
    methodsOf (path, counts) {
      const methods = table.methodsOf(path, counts)
      return methods.has('GET') ? methods.add('HEAD') : methods
    }
  }
}

export class TenantRoute implements Origin {
  /** Method and path. */
  readonly id: string
  readonly generation: string
  readonly placeOf: PlaceOf
  /** The document's `GET` route on the same path. */
  read: TenantRoute | undefined
  #of: Catalogue | undefined
  #compiled: CompiledRoute | null = null

  /** `limit`: the tenant's own limit; null if only the server's limit counts. */
  constructor (
    readonly declared: Route,
    pointer: string,
    readonly limit: Limit | null,
    private readonly source: Pick<TenantRoutesSource, 'generation' | 'catalogue' | 'compile'>
  ) {
    this.id = `${methodOf(declared)} ${declared.path}`
    this.generation = source.generation
    // Routes with the same text share their compiled form, whose places are relative to the route. Only a workflow that the route names
    // by `ref` has an absolute place.
    this.placeOf = (place) => place.startsWith('/workflows/') ? place : placeInWebhook(pointer + place)
  }

  /** Compiled for the current tables; null if the route no longer fits them. */
  compiled (): CompiledRoute | null {
    const tables = this.source.catalogue()
    if (this.#of !== tables) {
      this.#of = tables
      this.#compiled = this.source.compile(this.declared, tables)
    }
    return this.#compiled
  }

  readOnPath (): CompiledRoute | null {
    return this.read?.compiled() ?? null
  }

  /** The route was requested at least once. */
  get used (): boolean {
    return this.#of !== undefined
  }

  /** The route's part of `/doc`, by the current tables. */
  documentation (): RouteDocumentation | undefined {
    const route = this.#shown()
    if (route === null) return undefined
    const read = this.read === undefined || this.read === this ? null : this.read.#shown()
    return documentRoute(this.declared, route, read ?? undefined)
  }

  /** A route that was never requested is compiled without keeping the result. */
  #shown (): CompiledRoute | null {
    return this.used ? this.compiled() : this.source.compile(this.declared, this.source.catalogue())
  }
}

export function placedExpression (error: unknown, placeOf: PlaceOf): unknown {
  if (!isFailure(error, 'expressionLimit')) return error
  const { details } = error.extras
  const [detail] = Array.isArray(details) ? details : []
  if (!isRecord(detail) || typeof detail['path'] !== 'string') return error
  const path = placeOf(detail['path'])
  return failure('expressionLimit', { message: error.message.replace(detail['path'], path), extras: { details: [{ ...detail, path }] } })
}
