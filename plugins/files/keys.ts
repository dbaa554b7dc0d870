import type { Owner } from '../../lib/identity/tenant-ref.js'

/** The object key of a file. */
export function keyOf (tenant: Owner, id: string): string {
  return `${tenant}/${id}`
}

/** The object key of bytes that a client sent directly to the store, before they are confirmed. */
export function uploadKeyOf (tenant: Owner, id: string): string {
  return `${keyOf(tenant, id)}-upload`
}
