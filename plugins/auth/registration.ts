/** The registration of @fastify/jwt: the app's own, or one that is created here. */
import type { FastifyJWTOptions, JWT } from '@fastify/jwt'
import type { FastifyInstance, FastifyPluginCallback } from 'fastify'
import type { Keys } from './keys.js'
import { randomBytes } from 'node:crypto'

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
  if (known !== undefined && isJwt(known)) {
    return { jwt: { ...known }, isOfApp: true, decoratorName: decoratorNameOf(known) }
  }
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
