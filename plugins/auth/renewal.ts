/** Checks the caller and the tenant of a request again after a slow body: both may have ended since the headers arrived. */
import type { FastifyReply, FastifyRequest, preValidationHookHandler, RouteOptions } from 'fastify'
import { repeatChecks } from '../../lib/plugin/pipeline.js'
import { identification, identifiedAt } from './identification.js'

const maxAge = 1000 // ms of an identity: tokens, keys, roles and tenants end on every server within this time

/** Identifies callers of the route again after a slow body, before the route's other hooks. */
export function renewAfterBody (route: RouteOptions): void {
  // Bodies of GET and HEAD are not read.
  if ([route.method].flat().every((method) => method === 'GET' || method === 'HEAD')) return
  const hook: preValidationHookHandler = (request, reply, done) => {
    if (isFresh(request)) return done()
    renew(request, reply).then(() => done(), done)
  }
  route.preValidation = [hook, route.preValidation ?? []].flat()
}

/** For handlers that read the body themselves, at its end. Rejects with the error that a new request would get. */
export async function renew (request: FastifyRequest, reply: FastifyReply): Promise<void> {
  const { [identification]: own, tenant } = request
  if (own === null || isFresh(request)) return
  await repeatChecks(own.route, request, reply)
  // The app may have replaced it.
  request.tenant = tenant
}

function isFresh ({ [identification]: own, [identifiedAt]: at }: FastifyRequest): boolean {
  if (own === null) return true
  const age = own.now() - at
  // Negative if the clock was set back.
  return age >= 0 && age <= maxAge
}
