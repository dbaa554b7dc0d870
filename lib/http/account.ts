/** The account that a request's use of the process counts for. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { tenantAccount } from '../concurrency/event-loop-yielder.js'
import { addressKey } from './address-key.js'
import { tenantIdOf } from '../identity/tenant-ref.js'

/** A request, or a call within this process. */
export interface AccountCall extends Pick<FastifyRequest, 'auth' | 'ip'> {
  readonly tenant?: { readonly id: string } | null | undefined
}

/** The tenant of the token, or else the address, so that a caller without a token cannot use up a tenant's share. */
export function accountOf ({ auth, tenant, ip }: AccountCall, trustsHeader: boolean): string {
  const id = auth?.tenant_id ?? (trustsHeader ? tenant?.id : undefined)
  return id === undefined ? `address ${addressKey(ip)}` : tenantAccount(tenantIdOf(id))
}

/** A trusted header names the tenant of a request. */
export function trustsTenantHeader (app: FastifyInstance): boolean {
  return app.hasDecorator('tenancy') && app.tenancy.trustHeader
}
