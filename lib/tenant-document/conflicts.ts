/** Finds routes of a tenant that would shadow one of the server's own. */
import type { HTTPMethod } from 'find-my-way'
import type { Route } from '../schema/route.js'
import type { TakenRoute } from './context.js'
import { METHODS } from 'node:http'
import findMyWay from 'find-my-way'
import { methodOf } from '../compiler/route-parts.js'
import { parsePath } from '../document/path.js'
import { reservedBy } from '../document/reserved.js'

type Router = ReturnType<typeof findMyWay>

/** Stands for any value of a parameter; no real path contains it. */
const anything = '\u{10FFFD}'

const routers = new WeakMap<readonly TakenRoute[], { readonly router: Router, readonly size: number }>()

/**
 * Finds the server's route that would match every request of the tenant's route: a route with the same path, or with a parameter
 * or wildcard that covers it, ignoring case. The paths of built-in endpoints are reserved for every method, even if this server
 * disables them. Returns a description of the route.
 */
export function conflictOf (route: Route, taken: readonly TakenRoute[]): string | null {
  const segments = parsePath(route.path)
  if (typeof segments === 'string') return null
  const reserved = reservedBy(
    segments.map((segment) => segment.kind === 'text' ? { ...segment, text: segment.text.toLowerCase() } : segment)
  )
  if (reserved !== undefined) return `the built-in endpoint ${reserved.path}`
  const path = `/${segments.map(({ kind, text }) => kind === 'text' ? text : anything).join('/')}`
  const found = routerOf(taken).find(methodOf(route), path)
  const own: unknown = found?.store
  return typeof own === 'string' ? `the server's own route ${own}` : null
}

/** Uses find-my-way, Fastify's router, to match paths. If routes were added to the list, a new router is built. */
function routerOf (taken: readonly TakenRoute[]): Router {
  const known = routers.get(taken)
  if (known?.size === taken.length) return known.router
  const router = findMyWay({ caseSensitive: false, allowUnsafeRegex: true, maxParamLength: 2048 })
  for (const { method, path } of taken) {
    // The same path may be registered for several hosts or versions, and in upper and lower case.
    if (isMethod(method) && router.findRoute(method, path) === null) router.on(method, path, () => {}, `${method} ${path}`)
  }
  routers.set(taken, { router, size: taken.length })
  return router
}

function isMethod (method: string): method is HTTPMethod {
  return METHODS.includes(method)
}
