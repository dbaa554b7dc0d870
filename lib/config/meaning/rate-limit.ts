/** What schemas cannot say of rate limits: that each rule of an endpoint names one. */
import type { FaultList } from '../faults.js'
import type { RateLimit } from '../schema/rate-limit.js'
import type { Route } from '../schema/route.js'
import type { Entry } from '../sections.js'
import { nearest, pointerTo } from '../faults.js'
import { reservedPaths } from '../reserved.js'

/** `off` are the plugins that the document turns off. */
export function checkEndpoints ({ perEndpoint = {} }: RateLimit, routes: readonly Entry<Route>[], off: ReadonlySet<string>, faults: FaultList): void {
  const paths = reservedPaths.filter(({ plugin, served }) => served && !off.has(plugin)).map(({ path }) => path)
  const names = routes.flatMap(({ value: { method, path } }) => [path, `${method.toUpperCase()} ${path}`])
  const known = new Set([...paths, ...paths.flatMap((path) => [`GET ${path}`, `POST ${path}`]), ...names])
  for (const key of Object.keys(perEndpoint)) {
    if (!known.has(key)) faults.add(pointerTo('/rateLimit/perEndpoint', key), 'names no route of this document and no built-in endpoint', nearest(key, known))
  }
}
