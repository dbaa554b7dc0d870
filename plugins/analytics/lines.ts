/** Under what requests are counted: a method, the pattern of a route and a status. Never a path as it came. */
import { storable } from '../../lib/json/storable.js'

/** Paths that no route has, and those that only a wildcard for every path takes, share it. */
export const unknownRoute = '(unknown)'
/** What is beyond the bounds of a tenant is counted under it. */
export const otherRoutes = '(other)'

const maxRouteLength = 500 // characters of a pattern; a longer one is cut

export interface Line {
  /** Tells it apart from every other one. */
  readonly key: string
  readonly method: string
  readonly route: string
  readonly status: number
  /** Of a route that a tenant declared, and not the server. */
  readonly own: boolean
}

/** The lines of one route, made when they are first asked for. */
export class RouteLines {
  readonly #route: string
  readonly #own: boolean
  readonly #lines = new Map<string, Line>()
  /** Most requests of a route are of the line of the one before. */
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

/** Whether a pattern is one of those that are not counted; one that ends in `*` stands for all that begin like it. */
export function createExclusion (paths: readonly string[]): (route: string) => boolean {
  const exact = new Set(paths.filter((path) => !path.endsWith('*')))
  const starts = paths.filter((path) => path.endsWith('*')).map((path) => path.slice(0, -1))
  return (route) => exact.has(route) || starts.some((start) => route.startsWith(start))
}
