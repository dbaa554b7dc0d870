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
  return (route) => paths.some((path) => path.endsWith('*') ? route.startsWith(path.slice(0, -1)) : route === path)
}

// Durations are a sparse histogram whose buckets grow by a constant factor, so that each value differs from its bucket's value by at most
// 2.5 % (DDSketch: Masson, Rim, Lee 2019). Two are merged by adding their counts.
export const relativeError = 0.025
const shortest = 0.05 // ms; shorter durations are in the bucket 0, with this value
const longest = 3_600_000 // ms; longer durations are in the last bucket
const factor = (1 + relativeError) / (1 - relativeError)
const logFactor = Math.log(factor)

export const lastBucket = Math.ceil(Math.log(longest / shortest) / logFactor)

/** The bucket of a duration in milliseconds; 0 for an invalid one. Bucket n has durations up to `shortest * factor ** n`. */
export function bucketOf (ms: number): number {
  if (!(ms > shortest)) return 0
  return Math.min(Math.ceil(Math.log(ms / shortest) / logFactor), lastBucket)
}

/** The value of a bucket, in milliseconds, to a thousandth. */
export function durationOf (bucket: number): number {
  const ms = bucket <= 0 ? shortest : shortest * factor ** bucket * (1 - relativeError)
  return Math.round(ms * 1000) / 1000
}
