import type { Owner } from '../../lib/identity/tenant-ref.js'

/** The key of the object of a file. */
export function keyOf (tenant: Owner, id: string): string {
  return `${tenant}/${id}`
}

/** The key of the bytes that came past this server and are not confirmed. */
export function uploadKeyOf (tenant: Owner, id: string): string {
  return `${keyOf(tenant, id)}-upload`
}
