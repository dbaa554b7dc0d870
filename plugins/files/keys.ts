/** The key of the object of a file. */
export function keyOf (tenant: string, id: string): string {
  return `${tenant}/${id}`
}
