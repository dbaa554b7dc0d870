/**
 * The steps of a request before its body is read: address limit (if the route has one) -> identity -> tenant -> rate limit ->
 * permission. If a request without a token names a tenant, the look-up follows the rate limit. With `access: 'partial'` the token
 * may be in the body: caller and tenant are identified when the body is read, before its validation. Each plugin adds its steps
 * to the routes that need them. The order of registration does not matter. After a slow body, the checks run again.
 */
import type { FastifyReply, FastifyRequest, onRequestHookHandler, RouteOptions } from 'fastify'

const steps = ['address-limit', 'identity', 'tenant', 'rate-limit', 'public-tenant', 'permission'] as const
type Step = typeof steps[number]

/** The steps that a request may pass twice. The others count it. */
const checks: readonly Step[] = ['identity', 'tenant', 'public-tenant', 'permission']
const ranksOfChecks: ReadonlySet<number | undefined> = new Set(checks.map((step) => steps.indexOf(step)))

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

/** Checks the caller and the tenant of a request again. Rejects with the error of the first check that fails. */
export async function repeatChecks (route: RouteOptions, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  for (const hook of [route.onRequest ?? []].flat()) {
    if (!ranksOfChecks.has(rankOf.get(hook))) continue
    await new Promise<void>((resolve, reject) => {
      hook.call(request.server, request, reply, (error) => error === undefined ? resolve() : reject(error))
    })
  }
}
