/**
 * The steps of a request before its body is read: address limit (if the route has one) -> identity -> tenant -> rate limit ->
 * permission. If a request without a token names a tenant, the look-up follows the rate limit. With `access: 'partial'` the token
 * may be in the body: caller and tenant are identified when the body is read, before its validation. Each plugin adds its steps
 * to the routes that need them. The order of registration does not matter.
 */
import type { onRequestHookHandler, RouteOptions } from 'fastify'

const steps = ['address-limit', 'identity', 'tenant', 'rate-limit', 'public-tenant', 'permission'] as const
type Step = typeof steps[number]

/** The hooks that are steps. A route's other hooks run after them. */
const rankOf = new WeakMap<onRequestHookHandler, number>()

/** Adds a step to a route's hooks, unless the route has that step already (as an automatic HEAD route may). */
export function addStep (route: RouteOptions, step: Step, hook: onRequestHookHandler): void {
  const rank = steps.indexOf(step)
  const moment = route.config?.access === 'partial' && (step === 'identity' || step === 'tenant') ? 'preValidation' : 'onRequest'
  const hooks = [route[moment] ?? []].flat()
  if (hooks.some((other) => rankOf.get(other) === rank)) return
  rankOf.set(hook, rank)
  const place = hooks.findIndex((other) => (rankOf.get(other) ?? steps.length) > rank)
  hooks.splice(place === -1 ? hooks.length : place, 0, hook)
  route[moment] = hooks
}
