/** Checks the caller and the tenant of a request again after a slow body: both may have ended since the headers arrived. */
import type { FastifyInstance, FastifyReply, FastifyRequest, preValidationHookHandler, RouteOptions } from 'fastify'
import { repeatChecks } from '../../lib/plugin/pipeline.js'

const maxAge = 1000 // ms of an identity: tokens, keys, roles and tenants end on every server within this time

const identification = Symbol('tenantry.auth.identification')
const identifiedAt = Symbol('tenantry.auth.identifiedAt')

declare module 'fastify' {
  interface FastifyRequest {
    /** The identification of the request's route; null until it begins. */
    [identification]: Identification | null
    /** The time of the last identification. */
    [identifiedAt]: number
  }
}

/** The identification of a route's callers. */
export interface Identification {
  readonly route: RouteOptions
  /** The clock, in milliseconds. */
  readonly now: () => number
}

export function decorateRequests (app: FastifyInstance): void {
  app.decorateRequest(identification, null)
  app.decorateRequest(identifiedAt, 0)
}

/** Call it when an identification begins. Returns false if the request was identified before. */
export function begin (request: FastifyRequest, of: Identification): boolean {
  const isFirst = request[identification] === null
  request[identification] = of
  request[identifiedAt] = of.now()
  return isFirst
}

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
