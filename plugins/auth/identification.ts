/** Identifies the caller of a request: reads its token or its API key, and verifies it. */
import type { FastifyInstance, FastifyReply, FastifyRequest, onRequestHookHandler, RouteOptions } from 'fastify'
import { hookWhenKnown } from '../../lib/cache/async-cache.js'
import { failure } from '../../lib/errors.js'
import type { Claims } from '../../lib/expressions/types.js'
import { addVary } from '../../lib/http/caching.js'
import { isRecord } from '../../lib/json/plain-value.js'
import { checkLimit } from '../rate-limit/check-limit.js'
import { createLimit } from '../rate-limit/rules.js'
import { tokenMissing } from './access.js'
import type { Callers } from './callers.js'
import { tokenInvalid } from './errors.js'
import type { Verified, Verifier } from './verifier.js'

export const identification = Symbol('tenantry.auth.identification')
export const identifiedAt = Symbol('tenantry.auth.identifiedAt')

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

/** Returns false if the request was identified before. */
function begin (request: FastifyRequest, of: Identification): boolean {
  const isFirst = request[identification] === null
  request[identification] = of
  request[identifiedAt] = of.now()
  return isFirst
}

/** Headers that identify the caller and the tenant. Responses to the same URL vary with them. */
const identityHeaders = 'authorization, x-api-key, x-tenant-id'

/** A repeated identification verifies the caller and keeps `request.auth`, which the app may have replaced. */
export function createIdentification (
  { identify }: Pick<Callers, 'identify'>,
  { inspect }: Verifier,
  decoratorName: string,
  required: boolean,
  provider: string | undefined,
  own: Identification
): onRequestHookHandler {
  const take = (request: Pick<FastifyRequest, 'auth'> & { user: unknown }, { claims, payload }: Verified) => {
    request.auth = claims
    if (decoratorName === 'user') request.user = payload
    else Reflect.set(request, decoratorName, payload)
  }
  return (request, reply, done) => {
    const isFirst = begin(request, own)
    if (isFirst) addVary(reply, identityHeaders)
    const key = request.headers['x-api-key']
    if (key !== undefined) return identifyKey(identify, request, reply, String(key), isFirst, done)
    const token = bearerToken(request)
    if (token === null) {
      if (required) throw tokenMissing()
      return done()
    }
    hookWhenKnown(inspect(token, provider), (verified) => isFirst && take(request, verified), done)
  }
}

/** The token from the header or from `partialToken` in the body. If both are sent, they must be equal. */
export function createPartialIdentification (verifyPartial: (token: string) => Claims): onRequestHookHandler {
  return (request, _reply, done) => {
    const token = bearerToken(request)
    const { body } = request
    const inBody = isRecord(body) && Object.hasOwn(body, 'partialToken') ? body['partialToken'] : undefined
    const given = token ?? inBody
    if (typeof given !== 'string') throw tokenMissing()
    if (inBody !== undefined && inBody !== given) {
      throw failure('credentialsAmbiguous', {
        message: 'The partial token in the body differs from the token in the Authorization header: send one of them'
      })
    }
    identified(verifyPartial(given), request, done)
  }
}

/** Synchronous if the caller is known. */
function identified (claims: Claims | Promise<Claims>, request: FastifyRequest, done: (error?: Error) => void): void {
  hookWhenKnown(claims, (found) => {
    request.auth = found
  }, done)
}

/** Limits the unknown keys of one address. Valid keys are not counted. */
const unknownKeys = createLimit({ max: 100, windowMs: 60_000, skipSuccessfulRequests: true }, 'x-api-key')

/** Repeated headers are joined with a comma, which no key contains. */
function identifyKey (
  identify: Callers['identify'],
  request: FastifyRequest,
  reply: FastifyReply,
  key: string,
  isFirst: boolean,
  done: (error?: Error) => void
): void {
  if (request.headers.authorization !== undefined) throw failure('credentialsAmbiguous')
  // A key that was valid is no guess, so it is not counted later.
  if (isFirst) identified(identify(key, () => checkLimit(request, reply, unknownKeys)), request, done)
  else hookWhenKnown(identify(key), () => {}, done)
}

/**
 * The token of the Authorization header; null without the header. Refuses other schemes than Bearer, so that a caller with
 * credentials is not served as one without.
 */
export function bearerToken ({ headers: { authorization } }: Pick<FastifyRequest, 'headers'>): string | null {
  if (authorization === undefined) return null
  if (authorization.startsWith('Bearer ') && !authorization.includes(' ', 7)) return authorization.slice(7)
  const [scheme = '', token, ...rest] = authorization.trim().split(/ +/)
  if (scheme !== '' && scheme.toLowerCase() !== 'bearer') {
    throw tokenMissing('The Authorization header has an unsupported scheme: expected Bearer')
  }
  if (token === undefined) throw tokenMissing()
  if (rest.length > 0) throw tokenInvalid()
  return token
}
