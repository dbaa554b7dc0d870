/** The form of a tenant's id, as a regular expression. */
export const tenantIdPattern = '^[A-Za-z0-9_-]{1,64}$'
const tenantId = new RegExp(tenantIdPattern)

/** 1 to 64 characters of `A-Z a-z 0-9 _ -`. */
export function isTenantId (value: unknown): value is string {
  return typeof value === 'string' && tenantId.test(value)
}
