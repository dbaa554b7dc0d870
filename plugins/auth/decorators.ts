/** Applies the rules of `access` to the decorators of @fastify/jwt: `app.jwt`, `request.jwtVerify` and `reply.jwtSign`. */
import type { VerifyOptions } from '@fastify/jwt'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { whenKnown } from '../../lib/cache/async-cache.js'
import { isRecord } from '../../lib/json/plain-value.js'
import { tokenMissing } from './access.js'
import { tokenExpired, tokenInvalid } from './errors.js'
import { bearerToken } from './identification.js'
import { ownProvider } from './providers/claims.js'
import type { Registration } from './registration.js'
import type { TokenStore } from './tokens.js'
import type { Verified } from './verifier.js'

/** The functions of @fastify/jwt take options, a callback, both or neither. */
type Callback = (error: unknown, result?: unknown) => void
type Argument = object | Callback | undefined

/** Replaces the decorators in the context and its children. A registration in a parent context keeps its own. */
export function applyRules (app: FastifyInstance, registration: Registration, tokens: TokenStore): void {
  const { jwt } = registration
  const verifyRequest = createRequestVerification(registration, tokens, decoratorOf(app, 'Request', 'jwtVerify'))

  const rules = {
    sign: (payload: unknown, options?: Argument, callback?: Argument) =>
      settle(() => tokens.issue(payload, optionsIn(options)), options, callback),
    verify: (token: string, options?: Argument, callback?: Argument) =>
      settle(() => verifyToken(token, optionsIn(options)), options, callback)
  }
  if (Object.hasOwn(app, 'jwt')) Object.assign(app.jwt, rules)
  else app.decorate('jwt', Object.assign({ ...jwt }, rules))

  replaceDecorator(app, 'Request', 'jwtVerify', function (this: FastifyRequest, options?: Argument, callback?: Argument): unknown {
    return settle(() => verifyRequest(this, optionsIn(options)), options, callback)
  })
  replaceDecorator(
    app,
    'Reply',
    'jwtSign',
    function (this: FastifyReply, payload: unknown, options?: Argument, callback?: Argument): unknown {
      return settle(async () => tokens.issue(payload, nested(optionsIn(options), 'sign')), options, callback)
    }
  )

  /** Returns a promise if another plugin adds revocations: it may have to ask the database. */
  function verifyToken (token: string, options: object | undefined): unknown {
    const found = tokens.inspect(token)
    const settled = (known: Verified): unknown =>
      options === undefined ? known.payload : own(() => jwt.verify(token, { ...options, ...keyOf(known) }))
    const payload = whenKnown(found, settled)
    return tokens.hasRevocations ? Promise.resolve(payload) : payload
  }
}

/** Verifies the token of a request by our rules, by those of the app's own registration and by the options of the call. */
function createRequestVerification ({ jwt, isOfApp, decoratorName }: Registration, tokens: TokenStore, original: object) {
  return async (request: FastifyRequest, options: object | undefined): Promise<unknown> => {
    const checks = nested(options, 'verify')
    if (options === undefined && !isOfApp) {
      const token = bearerToken(request)
      if (token === null) throw tokenMissing()
      const { payload } = await tokens.inspect(token)
      Reflect.set(request, decoratorName, payload)
      return payload
    }
    const found = await tokens.inspect(lookUp(request, checks))
    const verify = { ...checks, ...keyOf(found) }
    return await new Promise((resolve, reject) => {
      // Without options the package uses its compiled verifier. With a callback it does not call this function again.
      const given = Object.keys(verify).length === 0 ? undefined : { verify }
      call(original, request, given, (error, user) => error ? reject(translated(error, request)) : resolve(user))
    })
  }

  /** The token may be in a cookie, or be returned by `extractToken`. */
  function lookUp (request: FastifyRequest, options: Partial<VerifyOptions> | undefined): string {
    try {
      return jwt.lookupToken(request, options)
    } catch (error) {
      throw translated(error, request)
    }
  }
}

/** The option `key`, for a token that a previous secret signed. Throws for tokens of providers, which @fastify/jwt does not know. */
function keyOf ({ provider, key }: Verified): Partial<VerifyOptions> {
  if (provider !== ownProvider) throw tokenInvalid()
  return key === undefined ? {} : { key }
}

function call (original: object, request: FastifyRequest, options: object | undefined, callback: Callback): void {
  if (typeof original === 'function') Reflect.apply(original, request, [options, callback])
}

function own (verify: () => unknown): unknown {
  try {
    return verify()
  } catch (error) {
    throw translated(error)
  }
}

/** Converts an error of the package to one of ours. Errors of the app, such as those of `trusted`, are unchanged. */
function translated (error: unknown, request?: FastifyRequest): unknown {
  const code = isRecord(error) ? String(error['code']) : ''
  if (code === 'FST_JWT_AUTHORIZATION_TOKEN_EXPIRED' || code === 'FAST_JWT_EXPIRED') return tokenExpired()
  if (code.startsWith('FST_JWT_NO_AUTHORIZATION')) return tokenMissing()
  if (code.startsWith('FST_JWT_BAD')) return request?.headers.authorization === undefined ? tokenMissing() : tokenInvalid(undefined, error)
  return code.startsWith('FST_JWT_') || code.startsWith('FAST_JWT_') ? tokenInvalid(undefined, error) : error
}

/** The package accepts options of a function directly, or under its name. */
function nested (options: object | undefined, name: 'sign' | 'verify'): object | undefined {
  if (!isRecord(options)) return undefined
  const inner = options[name]
  if (isRecord(inner)) return inner
  return 'decode' in options ? undefined : options
}

function optionsIn (argument: Argument): object | undefined {
  return typeof argument === 'object' ? argument : undefined
}

/** Passes the result to the callback, which is the last argument; without one returns it. */
function settle (run: () => unknown, ...last: readonly Argument[]): unknown {
  const callback = last.find((argument): argument is Callback => typeof argument === 'function')
  if (callback === undefined) return run()
  const done = (result: unknown) => callback(null, result)
  Promise.resolve().then(run).then(done, callback)
  return undefined
}

type Kind = 'Request' | 'Reply'

/** Returns the current decorator. Throws without one. */
function decoratorOf (app: FastifyInstance, kind: Kind, name: string): object {
  const found: unknown = Reflect.get(prototypeOf(app, kind), name)
  if (typeof found !== 'function') throw new Error(`@fastify/jwt was registered without the decorator ${name}`)
  return found
}

/** Replaces the decorator in the context, its children and existing ones. Parent contexts keep theirs. */
function replaceDecorator (app: FastifyInstance, kind: Kind, name: string, value: object): void {
  Reflect.defineProperty(prototypeOf(app, kind), name, { value, writable: true, configurable: true, enumerable: true })
}

/** A context stores the classes of its requests and replies under symbols. */
function prototypeOf (app: FastifyInstance, kind: Kind): object {
  for (let context: unknown = app; isObject(context); context = Object.getPrototypeOf(context)) {
    const symbol = Object.getOwnPropertySymbols(context).find(({ description }) => description === `fastify.${kind}`)
    const made: unknown = symbol === undefined ? undefined : Reflect.get(context, symbol)
    if (typeof made === 'function' && isObject(made.prototype)) return made.prototype
  }
  throw new Error(`this version of Fastify does not expose the class of its ${kind === 'Request' ? 'requests' : 'replies'}: use Fastify 5`)
}

function isObject (value: unknown): value is object {
  return typeof value === 'object' && value !== null
}
