/** Checks of rate limits beyond their schema: the default rule is complete, and each rule of an endpoint names one. */
import type { DefaultRateLimit, RateLimit, WithDefaultRule } from '../../schema/rate-limit.js'
import type { Route } from '../../schema/route.js'
import type { Entry } from '../sections.js'
import { nearest, pointerTo, type FaultList } from '../../schema/faults.js'
import { filled } from '../defaults.js'
import { isTurnedOff, reservedPaths } from '../reserved.js'

const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']

/** The section with the defaults of the rule for all routes; without `max` it limits addresses only. */
export function withDefaultRule<Section extends { default?: Partial<DefaultRateLimit> }> (section: Section): WithDefaultRule<Section> {
  const { default: rule, ...rest } = section
  return {
    ...rest,
    ...rule !== undefined && { default: filled(rule, 'windowMs', 'statusCode', 'skipSuccessfulRequests', 'skipFailedRequests') }
  }
}

/** `off` are the plugins that the document turns off. */
export function checkEndpoints (
  { perEndpoint = {} }: RateLimit,
  routes: readonly Entry<Route>[],
  off: ReadonlySet<string>,
  faults: FaultList
): void {
  const paths = reservedPaths.filter((reserved) => !isTurnedOff(reserved, off)).map(({ path }) => path)
  const names = routes.flatMap(({ value: { method, path } }) => [path, `${method.toUpperCase()} ${path}`])
  const known = new Set([...paths, ...paths.flatMap((path) => methods.map((method) => `${method} ${path}`)), ...names])
  for (const key of Object.keys(perEndpoint)) {
    if (!known.has(key)) {
      faults.add(pointerTo('/rateLimit/perEndpoint', key), 'is not a route of this document or a built-in endpoint', nearest(key, known))
    }
  }
}
