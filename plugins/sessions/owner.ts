/**
 * In whose list it stands that something of a user was ended: its tenant's, or of a user of no tenant the platform's, which
 * is empty, or its identity provider's. Of those anybody may have accounts, and as many as they like: what they make of them
 * must not end what the platform's own users have.
 */
import { platformRef, tenantOfToken, type Owner } from '../../lib/identity/tenant-ref.js'

export type ListOwner = Owner | `:${string}`

export interface Owners {
  of(user: { readonly sub: string, readonly tenant_id?: string | undefined }): ListOwner
  /** Whose lists may have changed when a notice names the tenant: the empty one stands for all that are no tenant's. */
  toldOf(tenant: Owner): readonly ListOwner[]
}

/** @param providers the names of the external providers, which stand before the `sub` of their users */
export function createOwners (providers: readonly string[]): Owners {
  const byProvider = new Map(providers.map((name) => [name, `:${name}` as const]))
  const others = [platformRef, ...byProvider.values()]
  return {
    of (user) {
      const tenant = tenantOfToken(user)
      if (tenant !== platformRef) return tenant
      return byProvider.get(user.sub.slice(0, Math.max(0, user.sub.indexOf(':')))) ?? platformRef
    },
    toldOf: (tenant) => tenant === platformRef ? others : [tenant]
  }
}
