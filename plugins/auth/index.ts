/**
 * Identity: JSON Web Tokens, `request.auth`, and what routes ask of their callers. A service plugin (fp).
 * Routes that declare `config: { access }` are guarded; every other route of the app is left alone.
 */
import type { FastifyInstance, FastifyRequest, onRequestHookHandler, RouteOptions } from 'fastify'
import type { Claims } from '../../lib/compiler/types.js'
import type { JwtOptions } from './keys.js'
import fp from 'fastify-plugin'
import { addStep } from '../pipeline.js'
import { accessLevels, requireCaller, requirePermissions, tokenMissing, type Access } from './access.js'
import { markSeen, refuseEarlierRoutes } from './early-routes.js'
import { createTokens, tokenInvalid, type Tokens } from './tokens.js'

declare module 'fastify' {
  interface FastifyInstance {
    auth: Tokens
  }
  interface FastifyRequest {
    /** The verified claims of the caller; null without a token, and on `public` routes. */
    auth: Claims | null
  }
  interface FastifyContextConfig {
    /** What the route asks of its caller. Default: the route is none of this plugin's business. */
    access?: Access
    /** What a caller without the role `admin` must hold on a `tenant-admin` route. */
    permission?: string
    /** What every caller must hold, all of them. */
    permissions?: readonly string[]
  }
}

export interface AuthOptions {
  /** The keys. Without them every token is refused. */
  readonly jwt?: JwtOptions | undefined
  /** The clock, in milliseconds since 1970. Default: the system's. */
  readonly now?: (() => number) | undefined
}

export async function auth (app: FastifyInstance, options: AuthOptions): Promise<void> {
  const tokens = createTokens(options.jwt, options.now)
  if (options.jwt === undefined) app.log.info('no jwt section: every token is refused')
  app.decorate('auth', tokens)
  app.decorateRequest('auth', null)
  const identifyAny = createIdentification(tokens, false)
  const identifyUser = createIdentification(tokens, true)

  refuseEarlierRoutes(app)
  app.addHook('onRoute', (route) => {
    const { access, permissions = [] } = route.config ?? {}
    if (access === undefined) return
    if (!accessLevels.includes(access)) throw new Error(`${route.url}: "${access}" is no access level; there are ${accessLevels.join(', ')}`)
    markSeen(route)
    if (access === 'public') return
    addStep(route, 'identity', access === 'open' ? identifyAny : identifyUser)
    if (access !== 'user' || permissions.length > 0) addPermissionStep(route, access, permissions)
  })
}

/** Roles and permissions, judged before the body is read: a stranger learns nothing from a 400. */
function addPermissionStep (route: RouteOptions, access: Access, permissions: readonly string[]): void {
  if (access === 'open' && permissions.length === 0) return
  const permission = route.config?.permission
  addStep(route, 'permission', (request, _reply, done) => {
    requireCaller(request, access, permission)
    requirePermissions(request.auth, permissions)
    done()
  })
}

function createIdentification ({ verify }: Tokens, required: boolean): onRequestHookHandler {
  return (request, _reply, done) => {
    const token = bearerToken(request)
    if (token !== null) request.auth = verify(token)
    else if (required) throw tokenMissing()
    done()
  }
}

/**
 * The token of the Authorization header; null where there is no header. Another scheme than Bearer is refused: whoever
 * sends credentials means to be known, and must not be served as a stranger.
 */
function bearerToken ({ headers: { authorization } }: FastifyRequest): string | null {
  if (authorization === undefined) return null
  if (authorization.startsWith('Bearer ') && !authorization.includes(' ', 7)) return authorization.slice(7)
  const [scheme = '', token, ...rest] = authorization.trim().split(/ +/)
  if (scheme.toLowerCase() !== 'bearer' || token === undefined) throw tokenMissing()
  if (rest.length > 0) throw tokenInvalid()
  return token
}

export default fp(auth, { name: 'tenantry-auth', fastify: '5.x' })
