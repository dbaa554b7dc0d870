/** The registration of @fastify/jwt: the app's own, or one that is created here. */
import { randomBytes } from 'node:crypto'
import type { FastifyJWTOptions, JWT } from '@fastify/jwt'
import type { FastifyInstance, FastifyPluginCallback } from 'fastify'
import { isRecord } from '../../lib/json/plain-value.js'
import type { Algorithm, Keys } from './keys.js'
import type { Registered } from './own-key.js'

const namespace = 'tenantry'

/** The functions of @fastify/jwt before the rules of `access` apply to them. */
export interface Registration {
  readonly jwt: JWT
  /** The app registered the package itself, possibly with its own rules (`trusted`, `formatUser`, `cookie`). */
  readonly isOfApp: boolean
  /** The member of a request with the claims. */
  readonly decoratorName: string
}

/** Uses the app's own registration, or registers @fastify/jwt. Without keys, the new registration accepts no token. */
export async function registerJwt (app: FastifyInstance, keys: Keys | undefined): Promise<Registration> {
  const known = app.hasDecorator('jwt') ? app.jwt : undefined
  if (known !== undefined && isJwt(known)) return { jwt: { ...known }, isOfApp: true, decoratorName: decoratorNameOf(known) }
  const { default: fastifyJwt } = await import('@fastify/jwt')
  const options = packageOptions(keys)
  const decoratorName = known === undefined && app.hasRequestDecorator('user') ? 'jwtUser' : 'user'
  if (known === undefined) await app.register(fastifyJwt, { ...options, decoratorName })
  else await registerBeside(app, fastifyJwt, options, decoratorName)
  return { jwt: { ...app.jwt }, isOfApp: false, decoratorName }
}

/** The options of a registration with the server's own keys. Without keys the secret is random, so that no token is valid. */
export function packageOptions (keys: Keys | undefined): FastifyJWTOptions {
  const { algorithm = 'HS256', verifying: [current] = [], signing } = keys ?? {}
  const secret = { public: current ?? randomBytes(32).toString('hex'), ...signing !== undefined && { private: signing } }
  return { secret, sign: { algorithm }, verify: { algorithms: [algorithm], cache: false } }
}

/** `app.jwt` exists already, with namespaces of the app. */
async function registerBeside (
  app: FastifyInstance,
  fastifyJwt: FastifyPluginCallback<FastifyJWTOptions>,
  options: FastifyJWTOptions,
  decoratorName: string
): Promise<void> {
  if (!Object.hasOwn(app, 'jwt')) app.decorate('jwt', { ...app.jwt })
  if (!app.hasRequestDecorator(decoratorName)) app.decorateRequest(decoratorName, null)
  await app.register(fastifyJwt, { ...options, namespace, jwtVerify: 'jwtVerify', jwtSign: 'jwtSign', jwtDecode: 'jwtDecode' })
  Object.assign(app.jwt, Reflect.get(app.jwt, namespace))
  Reflect.deleteProperty(app.jwt, namespace)
}

/** A registration with only namespaces has no functions of its own. */
function isJwt (value: object): value is JWT {
  return 'sign' in value && typeof value.sign === 'function'
}

function decoratorNameOf ({ options }: JWT): string {
  const name: unknown = Reflect.get(options, 'decoratorName')
  return typeof name === 'string' ? name : 'user'
}

const probe = { sub: 'probe' }
/** The errors of a token that another key or algorithm signed. The package checks claims after the signature. */
const otherKey: ReadonlySet<unknown> = new Set(['FAST_JWT_INVALID_SIGNATURE', 'FAST_JWT_INVALID_KEY', 'FAST_JWT_INVALID_ALGORITHM'])

/**
 * @param keys those of the option `jwt`
 * @throws if the keys are not those of the registration, or if the registration does not fix one algorithm
 */
export function readRegistered (jwt: JWT, keys: Keys | undefined): Registered {
  const signed = signProbe(jwt)
  if (keys !== undefined && hasOtherKey(jwt, keys, signed)) {
    throw new Error(
      '@fastify/jwt is registered with another secret or algorithm than the option `jwt` of the plugin "tenantry/plugins/auth": give both the same, or leave out the option `jwt`'
    )
  }
  const algorithm = keys?.algorithm ?? (signed === null ? onlyAlgorithm(jwt) : algorithmOf(jwt, signed))
  return { algorithm, lifetime: lifetimeOf(jwt, signed), canSign: signed !== null }
}

/** Returns null if the registration has no signing key. */
function signProbe (jwt: JWT): string | null {
  let signed: unknown
  try {
    signed = jwt.sign({ ...probe })
  } catch (cause) {
    if (cause instanceof Error && cause.message.includes('verify mode')) return null
    throw new Error('the registration of @fastify/jwt cannot sign a token', { cause })
  }
  if (typeof signed === 'string') return signed
  ignoreRejection(signed)
  throw new Error(
    'the secret of @fastify/jwt is a function, which the plugin "tenantry/plugins/auth" cannot call: register @fastify/jwt with a string, and list previous secrets in the option `jwt.previousSecrets` of the plugin'
  )
}

function hasOtherKey (jwt: JWT, { algorithm, verifying: [current], signing }: Keys, signed: string | null): boolean {
  // If neither side can sign, there is nothing to compare.
  if (signed === null) return false
  try {
    if (signing !== undefined) ignoreRejection(jwt.verify(jwt.sign({ ...probe }, { key: signing, algorithm })))
    else if (current !== undefined) ignoreRejection(jwt.verify(signed, { key: current, algorithms: [algorithm] }))
    return false
  } catch (error) {
    return isRecord(error) && otherKey.has(error['code'])
  }
}

/** The public key may be a function, which is called only with a request. */
function ignoreRejection (result: unknown): void {
  Promise.resolve(result).catch(() => {})
}

function algorithmOf (jwt: JWT, signed: string): Algorithm {
  const decoded: { readonly header?: { readonly alg?: Algorithm } } | null = jwt.decode(signed, { complete: true })
  const algorithm = decoded?.header?.alg
  if (algorithm === undefined || algorithm === 'none') {
    throw new Error('@fastify/jwt is registered with the algorithm "none": expected a signing algorithm')
  }
  return algorithm
}

function onlyAlgorithm ({ options: { verify } }: JWT): Algorithm {
  const [algorithm, ...others] = verify.algorithms ?? []
  if (algorithm !== undefined && algorithm !== 'none' && others.length === 0) return algorithm
  throw new Error(
    '@fastify/jwt is registered without a fixed algorithm: give it `verify: { algorithms: ["RS256"] }`, or the algorithm of your key'
  )
}

/** Seconds. */
function lifetimeOf (jwt: JWT, signed: string | null): number | undefined {
  const claims: { readonly iat?: unknown, readonly exp?: unknown } | null = signed === null ? null : jwt.decode(signed, { complete: false })
  return typeof claims?.exp === 'number' && typeof claims.iat === 'number' ? claims.exp - claims.iat : undefined
}
