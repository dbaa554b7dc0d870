/** The methods of each path of an app, for 404, 405 and preflights. */
import { METHODS, type Server } from 'node:http'
import type { FastifyInstance, FastifyRequest, RouteOptions } from 'fastify'
import findMyWay, { type HTTPMethod } from 'find-my-way'
import { failure, type TenantryError } from '../errors.js'
import { routesOf } from './guards.js'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The route is a fallback for other paths: it gives a path no methods. Default: false. */
    fallback?: boolean
  }
}

interface RoutePaths {
  /** The methods of a URL's path, in a fixed order; empty for an unknown path. */
  methodsOf(url: string): readonly string[]
  /** A route is a fallback for other paths. */
  readonly hasFallback: boolean
}

interface KnownPaths extends RoutePaths {
  add(route: RouteOptions): void
}

/** Characters of one path parameter: a document's id of 512, percent-encoded, with room to spare. */
export const maxParamLength = 2048

/** By the HTTP server, which all contexts of an app share. */
const known = new WeakMap<Server, KnownPaths>()

/** The routes of the app so far, and later ones of each context that called this function. */
export function routePathsOf (app: FastifyInstance): RoutePaths {
  const paths = known.get(app.server) ?? createRoutePaths()
  known.set(app.server, paths)
  for (const route of routesOf(app)) paths.add(route)
  app.addHook('onRoute', paths.add)
  return paths
}

function createRoutePaths (): KnownPaths {
  const urls = new Map<HTTPMethod, Set<string>>()
  let find: ReturnType<typeof routerOf> | undefined
  const paths = {
    hasFallback: false,
    methodsOf (url: string) {
      const isFound = find ??= routerOf(urls)
      return [...urls.keys()].filter((method) => isFound(method, url)).sort()
    },
    add ({ method, url, config }: RouteOptions) {
      if (config?.fallback === true) paths.hasFallback = true
      if (config?.fallback === true || url === '*') return
      find = undefined
      for (const name of [method].flat()) {
        // The same path may exist for several hosts or versions.
        if (isMethod(name)) urls.set(name, (urls.get(name) ?? new Set()).add(url))
      }
    }
  }
  return paths
}

/** Made for the first request without a route: of a thousand routes it takes some 100 ms, which the start would wait for. */
function routerOf (urls: ReadonlyMap<HTTPMethod, ReadonlySet<string>>) {
  const router = findMyWay({ maxParamLength, allowUnsafeRegex: true })
  for (const [method, paths] of urls) for (const url of paths) router.on(method, url, () => {})
  return (method: HTTPMethod, url: string) => router.find(method, url) !== null
}

/** A browser asks whether a page of another origin may send a request. */
export function isPreflight ({ method, headers }: FastifyRequest): boolean {
  return method === 'OPTIONS' && headers['access-control-request-method'] !== undefined
}

/** 405: the path has these methods. The preflight of an allowed origin is answered earlier. */
export function methodNotAllowed (methods: Iterable<string>, request: FastifyRequest): TenantryError {
  const message = `pages of the origin ${request.headers.origin ?? 'none'} may not call the API: list the origin in \`cors.origins\``
  return failure('methodNotAllowed', {
    headers: { allow: [...methods].join(', ') },
    ...isPreflight(request) && { extras: { details: [{ path: '', message, keyword: 'cors' }] } }
  })
}

/** A method that Node's parser knows. */
export function isMethod (method: string): method is HTTPMethod {
  return METHODS.includes(method)
}
