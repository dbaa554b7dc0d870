/** The owner of a row or key: a tenant, the platform, a request without one, or the server. The compiler accepts no plain string for it. */
declare const kind: unique symbol
type Ref<Kind> = string & { readonly [kind]: Kind }

export type TenantId = Ref<'tenant'>
/** A tenant or the platform: the two that can own data. System tables store a tenant's id, and the empty string for the platform. */
export type Owner = TenantId | Ref<'platform'>
export type TenantRef = Owner | Ref<'none'> | Ref<'server'>

/** One life of a tenant: a later tenant with the same id has another one. For keys of data that is kept beyond requests. */
export type TenantLife = Ref<'life'>

export const platformRef = '' as Ref<'platform'>
// A tenant's id cannot contain parentheses.
/** A request without a tenant. Such requests share one limit of connections and of concurrent work. */
export const noTenant = '(none)' as Ref<'none'>
export const serverRef = '(server)' as Ref<'server'>

const noToken = '(no token)'

/** The callers of a tenant without a token, in limits that keep room for its own callers. */
export function withoutToken (tenant: TenantRef): TenantId {
  return `${tenant}${noToken}` as TenantId
}

/** Whether `withoutToken` made the reference. */
export function isWithoutToken (ref: TenantRef): boolean {
  return ref.endsWith(noToken)
}

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

/** Types a string from outside, such as a column or an argument from an embedding app. The empty string is the platform. */
export function tenantRef (text: string): Owner {
  return text as Owner
}

/** As `tenantRef`, for a string that is a tenant's id. */
export function tenantIdOf (text: string): TenantId {
  return text as TenantId
}

export function lifeOf ({ id, createdAt }: { readonly id: TenantId, readonly createdAt: Date }): TenantLife {
  // An id cannot contain a space.
  return `${id} ${createdAt.getTime()}` as TenantLife
}

export function tenantOfLife (life: TenantLife): TenantId {
  return tenantIdOf(life.slice(0, life.indexOf(' ')))
}

/** The creation time of the tenant, in milliseconds since 1970. */
export function startOfLife (life: TenantLife): number {
  return Number(life.slice(life.indexOf(' ') + 1))
}

/** The tenant, or the platform for a request without a tenant: such a request reads and writes the platform's data. */
export function tenantOrPlatform (tenant: { readonly id: string } | null | undefined): Owner {
  return tenant === null || tenant === undefined ? platformRef : tenantRef(tenant.id)
}

/** The tenant that a token names; the platform if it names none. */
export function tenantOfToken ({ tenant_id: id }: { readonly tenant_id?: string | undefined }): Owner {
  return id === undefined ? platformRef : tenantRef(id)
}

/** The tenant in JSON and in the log: null if there is none. */
export function tenantField (ref: TenantRef): TenantId | null {
  return isTenant(ref) ? ref : null
}

/** The administrator of the server: the role `admin` in a token that names no tenant, or the platform's API key. */
export function isPlatformAdmin (auth: { readonly role?: string | undefined, readonly tenant_id?: string | undefined }): boolean {
  return auth.role === 'admin' && auth.tenant_id === undefined
}
