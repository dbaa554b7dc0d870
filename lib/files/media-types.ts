/** Media types that a bucket, or a part of a form, accepts. */

/** `image/*` does not include SVG: it may contain scripts, and only the uploader declares the type. */
export function admitsType (types: readonly string[] | undefined, contentType: string): boolean {
  return types === undefined || types.some((type) => matches(type, contentType))
}

function matches (type: string, contentType: string): boolean {
  if (type === contentType) return true
  return type.endsWith('/*') && contentType.startsWith(type.slice(0, -1)) && contentType !== 'image/svg+xml'
}
