/** The hooks of routes with a limit. */
import type { FastifyInstance, onSendHookHandler, RouteOptions } from 'fastify'
import { addStep } from '../../lib/plugin/pipeline.js'
import { shownLimit } from './headers.js'
import type { Limit } from './rules.js'
import type { RateLimiter, RouteLimiter } from './types.js'

const isCounted = Symbol('tenantry.rate-limit.counted')

declare module 'fastify' {
  interface FastifyRequest {
    /** The route's limit has counted the request, or is about to. */
    [isCounted]: boolean
  }
}

export function decorateRequests (app: FastifyInstance): void {
  app.decorateRequest('rateLimited', false)
  app.decorateRequest(isCounted, false)
  app.decorateRequest(shownLimit, null)
}

export function addAddressStep (route: RouteOptions, limiter: RateLimiter, limit: Limit): void {
  addStep(route, 'address-limit', (request, reply, done) => {
    const pending = limiter.check(request, reply, limit)
    if (pending === undefined) done()
    else pending.then(() => done(), done)
  })
}

export function addRouteStep (route: RouteOptions, limiter: RouteLimiter, limit: Limit): void {
  addStep(route, 'rate-limit', (request, reply, done) => {
    request[isCounted] = true
    const pending = limiter.checkRoute(request, reply, limit)
    if (pending === undefined) done()
    else pending.then(() => done(), done)
  })
  // A request that failed earlier, for example with an invalid token, shows the limit too.
  const showAnyway: onSendHookHandler = (request, reply, payload, done) => {
    const finish = () => {
      limiter.mergeHeaders(request, reply)
      done(null, payload)
    }
    if (request[isCounted] || request.rateLimited || reply.statusCode < 400) return finish()
    request[isCounted] = true
    const pending = limiter.countFailure(request, reply, limit)
    if (pending === undefined) finish()
    else pending.then(finish, done)
  }
  route.onSend = [route.onSend ?? [], showAnyway].flat()
}

/** For routes whose limit is counted later, or only for addresses. */
export function addHeaderStep (route: RouteOptions, limiter: RouteLimiter): void {
  const merge: onSendHookHandler = (request, reply, payload, done) => {
    limiter.mergeHeaders(request, reply)
    done(null, payload)
  }
  route.onSend = [route.onSend ?? [], merge].flat()
}
