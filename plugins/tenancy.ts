/**
 * Which tenant a request belongs to (DESIGN 5, "Which tenant"): `request.tenant`. A service plugin (fp). Needs auth.
 * Acts on routes that declare `config: { access }`, `public` ones excepted.
 */
import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify'
import type { ScopeTenant } from '../lib/compiler/types.js'
import fp from 'fastify-plugin'
import { failure } from '../lib/errors.js'
import { isTenantId } from '../lib/tenant-id.js'
import { isPlatformAdmin, tokenMissing } from './auth/access.js'
import { addStep } from './pipeline.js'
import { requireDecorator } from './requirement.js'

declare module 'fastify' {
  interface FastifyInstance {
    tenancy: Tenancy
  }
  interface FastifyRequest {
    /** The tenant of the request; null for the platform's own. */
    tenant: ScopeTenant | null
  }
  interface FastifyContextConfig {
    /** A caller without a token may name the tenant by header on this `open` route. Default: true. */
    publicTenant?: boolean
  }
}

/** The document's `tenancy` section, as far as this plugin reads it. */
export interface TenancyOptions {
  /** `X-Tenant-ID` is set by a gateway and decides where the token names no tenant. Default: false. */
  readonly trustHeader?: boolean | undefined
}

/** What `app.tenancy` is. */
export interface Tenancy {
  readonly trustHeader: boolean
}

/** What a tenant's document declares under `settings`; nothing yet. */
const noSettings = Object.freeze({})

export async function tenancy (app: FastifyInstance, { trustHeader = false }: TenancyOptions): Promise<void> {
  requireDecorator(app, 'auth', 'auth', 'tenancy')
  app.decorate('tenancy', Object.freeze({ trustHeader }))
  app.decorateRequest('tenant', null)
  const named = createResolution(trustHeader, true)
  const unnamed = createResolution(trustHeader, false)

  app.addHook('onRoute', (route) => {
    const { access, publicTenant = true } = route.config ?? {}
    if (access === undefined || access === 'public') return
    addStep(route, 'tenant', publicTenant ? named : unnamed)
  })
}

function createResolution (trustHeader: boolean, publicTenant: boolean): onRequestHookHandler {
  return (request, _reply, done) => {
    const id = tenantOf(request, trustHeader, publicTenant)
    if (id !== null) request.tenant = { id, config: noSettings }
    done()
  }
}

function tenantOf (request: FastifyRequest, trustHeader: boolean, publicTenant: boolean): string | null {
  const { auth } = request
  const claimed = auth?.tenant_id
  const header = request.headers['x-tenant-id']
  if (header === undefined) return claimed ?? null
  // Node joins several headers with a comma, which no id has.
  if (!isTenantId(header)) throw failure('tenantInvalid')
  if (claimed !== undefined) {
    if (header !== claimed) throw failure('tenantMismatch')
    return claimed
  }
  if (trustHeader) return header
  if (auth === null) {
    if (!publicTenant) throw tokenMissing()
    return header
  }
  if (!isPlatformAdmin(auth)) throw failure('tenantMismatch', { message: 'The token names no tenant: its caller may not name one by X-Tenant-ID' })
  return header
}

export default fp(tenancy, { name: 'tenantry-tenancy', fastify: '5.x' })
