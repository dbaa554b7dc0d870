/** The identity of a connection: from a header, a subprotocol or the first message. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { whenKnown } from '../../lib/cache/async-cache.js'
import { failure, TenantryError } from '../../lib/errors.js'
import type { Claims } from '../../lib/expressions/types.js'
import { optional } from '../../lib/plugin/define.js'
import { callerOf, isPlatformAdmin, requirePermissions } from '../auth/access.js'
import { bearerToken } from '../auth/identification.js'
import { createLimit } from '../rate-limit/rules.js'
import { requiredTenant } from '../tenancy/required.js'
import { requireActive, type Tenant } from '../tenancy/tenant.js'
import type { Identity } from './types.js'

/** The token or key of a client. */
export interface Credential {
  readonly kind: 'token' | 'key'
  readonly text: string
}

const subprotocol = 'tenantry'
const bearerPrefix = 'bearer.'
const token = /^[\w-]+\.[\w-]+\.[\w-]*$/

/** Counts, by address, the keys that this process has not cached. */
const unknownKeys = createLimit({ max: 100, windowMs: 60_000, skipSuccessfulRequests: true }, 'realtime x-api-key')

/** The subprotocol that the server accepts. It never sends the one with the token back. */
export function chooseProtocol (offered: ReadonlySet<string>): string | false {
  return offered.has(subprotocol) ? subprotocol : false
}

/** The credential of a message, or of a subprotocol. */
export function credentialOf (text: string): Credential {
  return { kind: token.test(text) ? 'token' : 'key', text }
}

/** The credential of the upgrade request; null if the first message must bring it. Throws if the request has several. */
export function sentCredential ({ headers }: FastifyRequest): Credential | null {
  const bearer = bearerToken({ headers })
  const key = headers['x-api-key']
  const offered = (headers['sec-websocket-protocol'] ?? '').split(',').map((text) => text.trim()).filter((text) =>
    text.startsWith(bearerPrefix)
  )
  const sent: Credential[] = [
    ...bearer === null ? [] : [{ kind: 'token' as const, text: bearer }],
    ...key === undefined ? [] : [{ kind: 'key' as const, text: String(key) }],
    ...offered.map((text) => credentialOf(text.slice(bearerPrefix.length)))
  ]
  if (sent.length > 1) throw failure('credentialsAmbiguous')
  return sent[0] ?? null
}

type Member = Pick<Identity, 'claims' | 'tenant' | 'createdAt'>

/** The tenant of the identity; null if it was deleted, also if a later tenant has its id. Synchronous if it is cached. */
export function findTenant (
  tenants: FastifyInstance['tenants'],
  { tenant: id, createdAt }: Member
): Tenant | null | Promise<Tenant | null> {
  return whenKnown(tenants.get(id), (tenant) => tenant?.createdAt.getTime() === createdAt.getTime() ? tenant : null)
}

/** Returns the tenant. Rejects with `tenantUnknown` if it was deleted, and with `tenantSuspended` if its callers are refused. */
export async function requireTenant (tenants: FastifyInstance['tenants'], member: Member): Promise<Tenant> {
  const { claims } = member
  const tenant = await findTenant(tenants, member)
  if (tenant === null) throw failure('tenantUnknown')
  requireActive(tenant, { byPlatform: isPlatformAdmin(claims) })
  return tenant
}

/** Throws, or rejects with, `forbidden` unless the caller has all permissions at the moment. */
export function requireAllowed (
  app: Pick<FastifyInstance, 'auth'>,
  { claims, tenant }: Identity,
  permissions: readonly string[]
): void | Promise<void> {
  return requirePermissions({ auth: claims, tenant: { id: tenant }, server: app }, permissions)
}

/**
 * Whether the caller has all permissions at the moment. Synchronous if they are in memory. Rejects only with errors of the server, such as
 * a lost database.
 */
export function isAllowed (
  app: Pick<FastifyInstance, 'auth'>,
  identity: Identity,
  permissions: readonly string[]
): boolean | Promise<boolean> {
  try {
    const allowed = requireAllowed(app, identity, permissions)
    return allowed instanceof Promise ? allowed.then(() => true, refused) : true
  } catch (error) {
    return refused(error)
  }
}

function refused (error: unknown): false | Promise<never> {
  return error instanceof TenantryError && error.statusCode < 500 ? false : rethrown(error)
}

async function rethrown (error: unknown): Promise<never> {
  throw error
}

export function createIdentities (app: FastifyInstance) {
  const [limiter, origins, usage] = [optional(app, 'rateLimiter'), optional(app, 'origins'), optional(app, 'usage')]

  /**
   * Counts an opening, a new token, a watch or a join. Each is work like that of a request, so it counts like one: for the limits of
   * requests, and as usage.
   */
  async function count (request: FastifyRequest, member: Member): Promise<void> {
    const tenant = await requireTenant(app.tenants, member)
    await limiter()?.checkWithin(request, { auth: member.claims, tenant })
    usage()?.record(member.tenant, 'api_calls')
  }

  /** @param admit called before the look-up of a key that is not cached */
  function claimsOf ({ kind, text }: Credential, admit?: () => void | Promise<void>): Claims | Promise<Claims> {
    return kind === 'token' ? app.auth.verify(text) : app.auth.identify(text, admit)
  }

  return {
    /**
     * Rejects with HTTP errors; a 401 or 403 ends the connection.
     * @param verified called with the claims of a valid credential, before the caller's tenant is checked
     */
    async identify (
      credential: Credential,
      request: FastifyRequest,
      reply: FastifyReply,
      verified: (claims: Claims) => void
    ): Promise<Identity> {
      const claims = await claimsOf(credential, () => limiter()?.check(request, reply, unknownKeys))
      verified(claims)
      const { id: tenant, createdAt } = await app.tenancy.admit(request, claims)
      const { origin } = request.headers
      const allowed = origins()
      if (origin !== undefined && allowed !== null && !allowed.isPlatforms(origin) && !await allowed.isTenants(tenant, origin)) {
        throw failure('forbidden', { message: 'Pages of this origin cannot connect' })
      }
      const member = { claims, tenant, createdAt }
      const counted = () => count(request, member)
      await counted()
      // A credential that was valid is checked without the limit, which others with the same address may use up.
      return { ...member, verify: () => claimsOf(credential), count: counted }
    },

    /** The identity of a request's caller. It is verified again with the token or key in the headers. */
    identityOf (request: FastifyRequest): Identity {
      const { id: tenant, createdAt } = requiredTenant(request)
      const member = { claims: callerOf(request), tenant, createdAt }
      const key = request.headers['x-api-key']
      const credential: Credential = key === undefined
        ? { kind: 'token', text: bearerToken(request) ?? '' }
        : { kind: 'key', text: String(key) }
      return { ...member, verify: () => claimsOf(credential), count: () => count(request, member) }
    }
  }
}

export type Identities = ReturnType<typeof createIdentities>
