/** Identity: JSON Web Tokens, API keys, `request.auth`, and the access of routes. It guards only routes with `config: { access }`. */
import type { RouteOptions } from 'fastify'
import { hookWhenKnown, whenKnown } from '../../lib/cache/async-cache.js'
import { checkAuthProviders, checkLifetime, type CompleteAuthProvider } from '../../lib/document/rules/auth.js'
import type { Claims } from '../../lib/expressions/types.js'
import { guardRoutes } from '../../lib/http/guards.js'
import { definePlugin } from '../../lib/plugin/define.js'
import { callback, type ClockOption, readSection, record, text } from '../../lib/plugin/options.js'
import { addStep } from '../../lib/plugin/pipeline.js'
import { FaultList, nearest, withoutFaults } from '../../lib/schema/faults.js'
import { type AuthProviders, AuthProviders as ProvidersSection } from '../../lib/schema/tokens.js'
import { type Access, accessLevels, requireCaller, requirePermissions } from './access.js'
import { type Callers, createCallers } from './callers.js'
import { createCredentials, type Credentials } from './credentials.js'
import { applyRules } from './decorators.js'
import { createIdentification, createPartialIdentification, decorateRequests } from './identification.js'
import { type JwtOptions, type Keys, keysOf } from './keys.js'
import { type OwnKeys, ownKeys, registeredKey } from './own-key.js'
import { ownProvider } from './providers/claims.js'
import { createProviders } from './providers/index.js'
import { readRegistered, registerJwt, type Registration } from './registration.js'
import { renewAfterBody } from './renewal.js'
import { sourcesOf } from './sources.js'
import { createTokens, type Tokens } from './tokens.js'

export type {} from '@fastify/jwt'

declare module 'fastify' {
  interface FastifyInstance {
    auth: Auth
  }
  interface FastifyRequest {
    /** The verified claims of the caller, of a token or an API key; null without either, and on `public` routes. */
    auth: Claims | null
  }
  interface FastifyContextConfig {
    /** The accepted callers. Default: this plugin ignores the route. */
    access?: Access
    /** The alternative to the role `admin` on a `tenant-admin` route. */
    permission?: string
    /** The required permissions of every caller. */
    permissions?: readonly string[]
    /**
     * The issuer of accepted tokens: `jwt` for the server's own key, or the name of a provider. Default: all of them. API keys are always
     * accepted.
     */
    authProvider?: string
  }
}

/** The type of `app.auth`. */
export interface Auth extends Tokens, Callers, Credentials {}

export interface AuthOptions extends ClockOption {
  /** The server's own keys. Without them, only tokens of providers are accepted. */
  readonly jwt?: JwtOptions | undefined
  /** The document's `authProviders`, whose tokens are accepted too. Default: none. */
  readonly authProviders?: AuthProviders | undefined
  /**
   * The platform's own key (the setting API_KEY). A caller with it as `x-api-key` is a platform administrator. 16 to 256 visible ASCII
   * characters, otherwise the start fails. Default: none.
   */
  readonly apiKey?: string | undefined
}

const noCallers =
  'no caller can be identified, and routes that require one answer 401: configure `jwt`, `authProviders` or an API key, register @fastify/jwt before the plugin "tenantry/plugins/auth", or register "tenantry/plugins/api-keys"'

export default definePlugin<AuthOptions>({
  name: 'auth',
  optional: ['rate-limit', 'sessions', 'api-keys', 'rbac', 'tenant-rbac'],
  observesRoutes: true,
  options: { jwt: record, authProviders: record, apiKey: text, now: callback },
  async setup (app, options) {
    const { jwt, now = Date.now } = options
    const maxLifetime = jwt?.maxLifetime ?? Infinity
    const providers = createProviders(providersOf(options), now, maxLifetime, app.log, (provider) => forget(provider))
    app.addHook('onClose', async () => providers.close())
    const keys = jwt && keysOf(jwt)
    const registration = await registerJwt(app, keys)
    const sources = sourcesOf(app)
    const keyring = ownKeysOf(registration, jwt, keys, now)
    const store = createTokens(keyring, now, providers, maxLifetime, sources.revocations)
    const { forget, inspect, issue, hasRevocations, ...tokens } = store
    // The lifetime may be the default, or that of the app's own @fastify/jwt.
    if (store.canSign) withoutFaults((faults) => checkLifetime(store.lifetime, maxLifetime, faults))
    const readsTokens = jwt !== undefined || registration.isOfApp || providers.names.length > 0
    let requiresCaller = false
    applyRules(app, registration, store)
    const callers = createCallers(options.apiKey, sources)
    const own: Auth = { ...tokens, ...callers, ...createCredentials(keyring, store, options.apiKey, sources, now) }
    app.decorate('auth', own)
    app.decorateRequest('auth', null)
    decorateRequests(app)
    const identifyPartial = createPartialIdentification(own.verifyPartial)

    guardRoutes(app, 'auth', (route) => {
      const { access, permissions = [], authProvider } = route.config ?? {}
      refuseMisspelledMembers(route)
      refuseWrongPermissions(route)
      refuseUnreadMembers(route)
      if (access === undefined) return
      if (!accessLevels.includes(access)) {
        throw new Error(`${route.url}: "${access}" is not an access level: expected one of ${accessLevels.join(', ')}`)
      }
      if (authProvider !== undefined && authProvider !== ownProvider && !own.providers.includes(authProvider)) {
        throw new Error(
          `${route.url}: "${authProvider}" is not an identity provider: expected one of ${[ownProvider, ...own.providers].join(', ')}`
        )
      }
      if (access === 'public') return
      if (access !== 'open') requiresCaller = true
      if (access === 'partial') addStep(route, 'identity', identifyPartial)
      else {
        const { decoratorName } = registration
        addStep(route, 'identity', createIdentification(own, store, decoratorName, access !== 'open', authProvider, { route, now }))
        renewAfterBody(route)
      }
      const isForAdmins = access === 'tenant-admin' || access === 'platform-admin'
      if (isForAdmins || permissions.length > 0) addPermissionStep(route, access, permissions)
    })
    // Not a failure: other plugins depend on this one, also in a process that serves no callers.
    app.addHook('onReady', async () => {
      if (readsTokens) return
      // The plugin api-keys may be registered later.
      const readsKeys = options.apiKey !== undefined || sources.apiKeys() !== null
      if (requiresCaller && !readsKeys) app.log.warn(noCallers)
      else app.log.info('no jwt section: every token is rejected')
    })
  }
})

/** The keys of the option `jwt`, those of the app's own registration of @fastify/jwt, or neither. */
function ownKeysOf (
  { jwt, isOfApp }: Registration,
  options: JwtOptions | undefined,
  keys: Keys | undefined,
  now: () => number
): OwnKeys | undefined {
  const registered = isOfApp ? readRegistered(jwt, keys) : undefined
  if (options !== undefined && keys !== undefined) return ownKeys(options, keys, jwt, now, registered)
  return registered && registeredKey(jwt, registered)
}

/** Throws a ConfigError that lists every fault. */
function providersOf ({ jwt, authProviders = {} }: AuthOptions): Readonly<Record<string, CompleteAuthProvider>> {
  const faults = new FaultList()
  readSection(ProvidersSection, authProviders, '/authProviders', faults)
  faults.throwIfAny()
  const providers = checkAuthProviders(authProviders, jwt?.issuer, faults)
  faults.throwIfAny()
  return providers
}

/** The members of a route's config that decide who may call it. */
const accessMembers = ['access', 'permission', 'permissions', 'authProvider']

/** Throws for a member whose name differs in one letter. Nothing would read it, and the route could be open to everyone. */
function refuseMisspelledMembers ({ method, url, config = {} }: RouteOptions): void {
  for (const name of Object.keys(config)) {
    const meant = accessMembers.includes(name) ? undefined : nearest(name, accessMembers, 1)
    if (meant !== undefined) throw new Error(`the route ${String(method)} ${url} has \`${name}\` in its config: did you mean \`${meant}\`?`)
  }
}

/** Throws for permissions that no check of a caller could read. */
function refuseWrongPermissions ({ method, url, config }: RouteOptions): void {
  const permissions: unknown = config?.permissions
  if (permissions === undefined) return
  if (Array.isArray(permissions) && permissions.every((permission: unknown) => typeof permission === 'string')) return
  throw new Error(`the route ${String(method)} ${url}: \`permissions\` must be an array of texts, such as ["orders:read"]`)
}

/** Throws if a member of the route's config would have no effect, so that the route would be more open than its config says. */
function refuseUnreadMembers ({ method, url, config: { access, permissions = [], permission, authProvider } = {} }: RouteOptions): void {
  const route = `${String(method)} ${url}`
  const asksForNothing = access === undefined || access === 'public'
  const given = { permissions: permissions[0], permission, authProvider }
  const unread = Object.entries(given).find(([, value]) => value !== undefined)?.[0]
  if (asksForNothing && unread !== undefined) {
    const now = access === undefined ? 'no `access`' : 'the access "public"'
    throw new Error(
      `the route ${route} has \`${unread}\` and ${now}, so it never reads a token: add \`access: "user"\` to its config, or remove \`${unread}\``
    )
  }
  if (permission !== undefined && access !== 'tenant-admin') {
    throw new Error(
      `the route ${route} has \`permission\` and the access "${
        String(access)
      }", which ignores it: use \`permissions: ["${permission}"]\`, or \`access: "tenant-admin"\``
    )
  }
}

/** Checks roles and permissions before the body is parsed, so that a caller without permission learns nothing from a 400. */
function addPermissionStep (route: RouteOptions, access: Access, permissions: readonly string[]): void {
  const permission = route.config?.permission
  addStep(route, 'permission', (request, _reply, done) => {
    const admitted = requireCaller(request, access, permission)
    hookWhenKnown(whenKnown(admitted, () => requirePermissions(request, permissions)), () => {}, done)
  })
}
