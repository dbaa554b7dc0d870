/** The lines of counts: a method, the pattern of a route and a status. Never the path of a request. */
import { storable } from '../../lib/json/storable.js'

/** The shared name of unknown paths, and of paths that only a fallback route takes. */
export const unknownRoute = '(unknown)'
/** The shared name beyond the bounds of a tenant. */
export const otherRoutes = '(other)'

const maxRouteLength = 500 // characters of a pattern; a longer one is cut

export interface Line {
  /** The unique key of the line. */
  readonly key: string
  readonly method: string
  readonly route: string
  readonly status: number
  /** A tenant declared the route, not the server. */
  readonly own: boolean
}

/** The lines of one route, created when they are first needed. */
export class RouteLines {
  readonly #route: string
  readonly #own: boolean
  readonly #lines = new Map<string, Line>()
  /** Consecutive requests of a route usually have the same line. */
  #last: Line | undefined

  constructor (route: string, own = false) {
    this.#route = storable(route.slice(0, maxRouteLength))
    this.#own = own
  }

  of (method: string, status: number): Line {
    const last = this.#last
    if (last !== undefined && last.status === status && last.method === method) return last
    const key = `${method} ${status} ${this.#route}`
    let line = this.#lines.get(key)
    if (line === undefined) this.#lines.set(key, line = Object.freeze({ key, method, route: this.#route, status, own: this.#own }))
    this.#last = line
    return line
  }
}

/** Whether a pattern is excluded; a `*` at the end matches all that begin like it. */
export function createExclusion (paths: readonly string[]): (route: string) => boolean {
  const exact = new Set(paths.filter((path) => !path.endsWith('*')))
  const starts = paths.filter((path) => path.endsWith('*')).map((path) => path.slice(0, -1))
  return (route) => exact.has(route) || starts.some((start) => route.startsWith(start))
}
