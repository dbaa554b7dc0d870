/**
 * The routes of one tenant's document, found by a table of its own, since Fastify's router is closed once the server has started.
 * A route is compiled when it is first asked for, and anew when the tables of the database have changed.
 */
import type { Route } from '../../lib/schema/route.js'
import type { CompiledRoute } from '../../lib/compiler/route.js'
import type { Catalogue } from '../../lib/database/catalogue.js'
import type { PlaceOf } from '../../lib/expressions/fault-log.js'
import type { Origin } from '../../lib/runtime/services.js'
import type { WorkflowDocument } from '../workflows/documents.js'
import { documentRoute, type RouteDocumentation } from '../../lib/compiler/documentation.js'
import { readsByPath } from '../../lib/compiler/precondition.js'
import { methodOf } from '../../lib/compiler/route-parts.js'
import { createYielder } from '../../lib/concurrency/event-loop-yielder.js'
import { createRules, type Limit, type RateLimitOptions } from '../rate-limit/rules.js'
import { placeWithin } from './placed-expression.js'
import { RouteTable, type Found } from './route-table.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'

export interface TenantRoute extends Origin {
  readonly declared: Route
  /** Method and path. */
  readonly id: string
  /** The tenant's own limit; null where only the server's counts. */
  readonly limit: Limit | null
  /** For the tables as they are now; null where these no longer have what the route needs. */
  compiled(): CompiledRoute | null
  /** It was requested at least once. */
  readonly used: boolean
  /** What `/doc` says of the route as it is in `compiled`, without keeping what only documentation needs. */
  documentation(): RouteDocumentation | undefined
}

export interface TenantRoutes {
  /** Of the document; 0 where the tenant has none. */
  readonly version: number
  /** What it takes in memory, all of it compiled: 1 for each quarter of a megabyte that is begun. */
  readonly weight: number
  readonly routes: readonly TenantRoute[]
  /** The workflows of the document, and what those are compiled against that the tenant sends. */
  readonly workflows: WorkflowDocument
  /** The route of a method and a path as it came, without query string. */
  find(method: string, path: string): Found<TenantRoute> | null
  /** The methods of the routes of a path that count. */
  methodsOf(path: string, counts: (route: TenantRoute) => boolean): Set<string>
}

export interface TenantRoutesSource {
  readonly tenant: Owner
  readonly version: number
  /** A text that no other document has, of this tenant or of one that had its id before. */
  readonly generation: string
  readonly weight: number
  readonly routes: readonly { readonly pointer: string, readonly value: Route }[]
  readonly rateLimit?: RateLimitOptions | undefined
  readonly catalogue: () => Catalogue
  readonly compile: (route: Route, tables: Catalogue) => CompiledRoute | null
  readonly workflows: WorkflowDocument
}

/** Makes the table in short turns: a document may have hundreds of routes. */
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

  /** The route of the same document that reads what is on the path. */
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

  /** Of a route that changes what a `GET` on its path shows. */
  #shownRead (): CompiledRoute | undefined {
    const read = this.#read
    return read === undefined || read === this ? undefined : read.#shown() ?? undefined
  }

  /** What was never asked for is not kept. */
  #shown (): CompiledRoute | null {
    return this.used ? this.compiled() : this.#compile(this.declared, this.#catalogue())
  }
}
