/** Polar's ids are UUIDs: what is none names nothing, and is never put into a path. */
const id = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

export function isPayprovId (value: unknown): value is string {
  return typeof value === 'string' && id.test(value)
}
