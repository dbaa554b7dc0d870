/**
 * Chooses the list that records an ended token: that of the user's tenant, of the platform (empty), or of an identity provider. Anyone can
 * have any number of accounts at a provider. With a separate list their number cannot end the sessions of the platform's own users.
 */
import { type Owner, platformRef, tenantOfToken } from '../../lib/identity/tenant-ref.js'

export type ListOwner = Owner | `:${string}`

export type Owners = ReturnType<typeof createOwners>

/** @param providers the names of the external providers, which precede the `sub` of their users */
export function createOwners (providers: readonly string[]) {
  const byProvider = new Map(providers.map((name) => [name, `:${name}` as const]))
  const others = [platformRef, ...byProvider.values()]
  return {
    of (user: { readonly sub: string, readonly tenant_id?: string | undefined }): ListOwner {
      const tenant = tenantOfToken(user)
      if (tenant !== platformRef) return tenant
      return byProvider.get(user.sub.slice(0, Math.max(0, user.sub.indexOf(':')))) ?? platformRef
    },
    /** The lists that a notice for the tenant may concern: the empty tenant stands for all lists without one. */
    concernedBy: (tenant: Owner): readonly ListOwner[] => tenant === platformRef ? others : [tenant]
  }
}
