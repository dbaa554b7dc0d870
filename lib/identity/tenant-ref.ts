/**
 * Whose a row, a key, a place in a queue or a line of the log is: a tenant, the platform, a request without a tenant, or the
 * server itself. At run time a text, which costs nothing. The compiler takes no other text for one.
 */
declare const kind: unique symbol
type Ref<Kind> = string & { readonly [kind]: Kind }

export type TenantId = Ref<'tenant'>
/** A tenant or the platform: the two that own something. System tables have it as it is, the platform as the empty text. */
export type Owner = TenantId | Ref<'platform'>
export type TenantRef = Owner | Ref<'none'> | Ref<'server'>

export const platformRef = '' as Ref<'platform'>
// The id of a tenant has no parentheses.
export const noTenant = '(none)' as Ref<'none'>
export const serverRef = '(server)' as Ref<'server'>

/** The form of a tenant's id, as a regular expression. */
export const tenantIdPattern = '^[A-Za-z0-9_-]{1,64}$'
const idForm = new RegExp(tenantIdPattern)

/** 1 to 64 characters of `A-Z a-z 0-9 _ -`. */
export function isTenantId (value: unknown): value is TenantId {
  return typeof value === 'string' && idForm.test(value)
}

export function isTenant (ref: TenantRef): ref is TenantId {
  return ref !== platformRef && ref !== noTenant && ref !== serverRef
}

/** For a text from outside the types: a column, or a call of an app that embeds a plugin. The empty text is the platform. */
export function tenantRef (text: string): Owner {
  return text as Owner
}

/** The same for a text that is the id of a tenant. */
export function tenantIdOf (text: string): TenantId {
  return text as TenantId
}

/** The tenant, or the platform in its place: what a request without a tenant reads and writes is the platform's. */
export function tenantOrPlatform (tenant: { readonly id: string } | null | undefined): Owner {
  return tenant === null || tenant === undefined ? platformRef : tenantRef(tenant.id)
}

/** The tenant that a token names; the platform where it names none. */
export function tenantOfToken ({ tenant_id: id }: { readonly tenant_id?: string | undefined }): Owner {
  return id === undefined ? platformRef : tenantRef(id)
}

/** For connections and turns: requests without a tenant share among themselves. */
export function tenantOrNone (tenant: { readonly id: string } | null | undefined): TenantRef {
  return tenant === null || tenant === undefined ? noTenant : tenantRef(tenant.id)
}

/** The tenant in JSON and in the log: null where there is none. */
export function tenantField (ref: TenantRef): TenantId | null {
  return isTenant(ref) ? ref : null
}
