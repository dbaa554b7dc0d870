/** The key of the object of a file. */
export function keyOf (tenant: string, id: string): string {
  return `${tenant}/${id}`
}

/** The key of the bytes that came past this server and are not confirmed. */
export function uploadKeyOf (tenant: string, id: string): string {
  return `${keyOf(tenant, id)}-upload`
}
