/** Media types that a bucket, or a part of a form, takes. */

/** Only uploaders say that a file is SVG, and it may hold scripts: `image/*` does not admit it. */
export function admitsType (types: readonly string[] | undefined, contentType: string): boolean {
  return types === undefined || types.some((type) => matches(type, contentType))
}

function matches (type: string, contentType: string): boolean {
  if (type === contentType) return true
  return type.endsWith('/*') && contentType.startsWith(type.slice(0, -1)) && contentType !== 'image/svg+xml'
}
