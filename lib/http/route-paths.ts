/** The methods of a path, from the routes of an app, for requests without a route. */
import type { FastifyInstance, RouteOptions } from 'fastify'
import { METHODS, type Server } from 'node:http'
import findMyWay, { type HTTPMethod } from 'find-my-way'
import { failure, type TenantryError } from '../errors.js'
import { routesOf } from './guards.js'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The route is a fallback for other paths: it gives a path no methods. Default: false. */
    fallback?: boolean
  }
}

export interface RoutePaths {
  /** The methods of a URL's path, in a fixed order; empty for an unknown path. */
  methodsOf(url: string): readonly string[]
  /** A route is a fallback for other paths. */
  readonly hasFallback: boolean
}

const maxParamLength = 2048 // characters, as in the server's own router

/** By the HTTP server, which all contexts of an app share. */
const known = new WeakMap<Server, RoutePaths>()

/** The routes of the app and of its child contexts, later ones included. */
export function routePathsOf (app: FastifyInstance): RoutePaths {
  const before = known.get(app.server)
  if (before !== undefined) return before
  const urls = new Map<HTTPMethod, Set<string>>()
  let router: Router | undefined
  const paths = {
    hasFallback: false,
    methodsOf (url: string) {
      const { find } = router ??= routerOf(urls)
      return [...urls.keys()].filter((method) => find(method, url)).sort()
    }
  }
  const add = ({ method, url, config }: RouteOptions) => {
    if (config?.fallback === true) paths.hasFallback = true
    if (config?.fallback === true || url === '*') return
    router = undefined
    for (const name of [method].flat()) {
      // The same path may exist for several hosts or versions.
      if (isMethod(name)) urls.set(name, (urls.get(name) ?? new Set()).add(url))
    }
  }
  for (const route of routesOf(app)) add(route)
  app.addHook('onRoute', add)
  known.set(app.server, paths)
  return paths
}

interface Router {
  readonly find: (method: HTTPMethod, url: string) => boolean
}

/** Made for the first request without a route: of a thousand routes it takes some 100 ms, which the start would wait for. */
function routerOf (urls: ReadonlyMap<HTTPMethod, ReadonlySet<string>>): Router {
  const router = findMyWay({ maxParamLength, allowUnsafeRegex: true })
  for (const [method, paths] of urls) for (const url of paths) router.on(method, url, () => {})
  return { find: (method, url) => router.find(method, url) !== null }
}

/** 405: the path has these methods. */
export function methodNotAllowed (methods: Iterable<string>): TenantryError {
  return failure('methodNotAllowed', { headers: { allow: [...methods].join(', ') } })
}

function isMethod (method: string): method is HTTPMethod {
  return METHODS.includes(method)
}
