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

export interface TenantRoute extends Origin {
  readonly declared: Route
  /** Method and path. */
  readonly id: string
  /** The tenant's own limit; null if only the server's limit counts. */
  readonly limit: Limit | null
  /** Compiled for the current tables; null if the route no longer fits them. */
  compiled(): CompiledRoute | null
  /** The route was requested at least once. */
  readonly used: boolean
  /** The route's part of `/doc`, by the current tables. Compiles an unused route without keeping it. */
  documentation(): RouteDocumentation | undefined
}

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
  readonly version: number
  /** Unique among all documents, also those of an earlier tenant with the same id. */
  readonly generation: string
  readonly weight: number
  readonly routes: readonly { readonly pointer: string, readonly value: Route }[]
  readonly rateLimit?: RateLimitOptions | undefined
  readonly catalogue: () => Catalogue
  readonly compile: (route: Route, tables: Catalogue) => CompiledRoute | null
  readonly workflows: WorkflowDocument
}

/** Yields to other work: a document may have hundreds of routes. */
export async function createTenantRoutes (
  { tenant, version, generation, weight, routes, rateLimit, catalogue, compile, workflows }: TenantRoutesSource
): Promise<TenantRoutes> {
  const rules = createRules(rateLimit ?? { enabled: false }, tenant)
  const table = new RouteTable<TenantRoute>()
  const yielder = createYielder(tenant)
  const mounted: Mounted[] = []
  for (const { value: declared, pointer } of routes) {
    const method = methodOf(declared)
    const limit = rules.limitOf(declared.rateLimit ?? null, method, declared.path)
    const route = new Mounted(declared, pointer, generation, limit, catalogue, compile)
    table.add(method, declared.path, route)
    mounted.push(route)
    if (yielder.shouldYield()) await yielder.yield()
  }
  const reads = readsByPath(mounted, ({ declared }) => declared)
  for (const route of mounted) route.showVersionsBy(reads.get(route.declared.path))

  return {
    version,
    weight,
    routes: mounted,
    workflows,
    // A HEAD is answered by the route of its GET.
    find: (method, path) => table.find(method === 'HEAD' ? 'GET' : method, path),
    methodsOf (path, counts) {
      const methods = table.methodsOf(path, counts)
      return methods.has('GET') ? methods.add('HEAD') : methods
    }
  }
}

class Mounted implements TenantRoute {
  readonly declared: Route
  readonly id: string
  readonly generation: string
  readonly placeOf: PlaceOf
  readonly limit: Limit | null
  readonly #catalogue: () => Catalogue
  readonly #compile: TenantRoutesSource['compile']
  #read: Mounted | undefined
  #of: Catalogue | undefined
  #compiled: CompiledRoute | null = null

  constructor (
    declared: Route,
    pointer: string,
    generation: string,
    limit: Limit | null,
    catalogue: () => Catalogue,
    compile: TenantRoutesSource['compile']
  ) {
    this.declared = declared
    this.id = `${methodOf(declared)} ${declared.path}`
    this.generation = generation
    this.placeOf = (place) => placeWithin(pointer, place)
    this.limit = limit
    this.#catalogue = catalogue
    this.#compile = compile
  }

  compiled (): CompiledRoute | null {
    const tables = this.#catalogue()
    if (this.#of !== tables) {
      this.#of = tables
      this.#compiled = this.#compile(this.declared, tables)
    }
    return this.#compiled
  }

  /** Sets the document's `GET` route on the same path. */
  showVersionsBy (read: Mounted | undefined): void {
    this.#read = read
  }

  readOnPath (): CompiledRoute | null {
    return this.#read?.compiled() ?? null
  }

  get used (): boolean {
    return this.#of !== undefined
  }

  documentation (): RouteDocumentation | undefined {
    const route = this.#shown()
    return route === null ? undefined : documentRoute(this.declared, route, this.#shownRead())
  }

  /** The `GET` route on the same path, unless this route is that one. */
  #shownRead (): CompiledRoute | undefined {
    const read = this.#read
    return read === undefined || read === this ? undefined : read.#shown() ?? undefined
  }

  /** A route that was never requested is compiled without keeping the result. */
  #shown (): CompiledRoute | null {
    return this.used ? this.compiled() : this.#compile(this.declared, this.#catalogue())
  }
}

/** Routes with the same text share their compiled form, whose places are relative to the route. `pointer`: the route's place. */
function placeWithin (pointer: string, place: string): string {
  // A workflow that the route names by `ref` has an absolute place.
  return place.startsWith('/workflows/') ? place : placeInWebhook(pointer + place)
}

export function placedExpression (error: unknown, placeOf: PlaceOf): unknown {
  if (!isFailure(error, 'expressionLimit')) return error
  const { details } = error.extras
  const [detail] = Array.isArray(details) ? details : []
  if (!isRecord(detail) || typeof detail['path'] !== 'string') return error
  const path = placeOf(detail['path'])
  return failure('expressionLimit', { message: error.message.replace(detail['path'], path), extras: { details: [{ ...detail, path }] } })
}
