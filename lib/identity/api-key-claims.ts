/** The claims of callers with a tenant's API key. */

/** Mark the claims of a tenant's key. Symbols, so that no token can contain them. */
const keyId = Symbol('tenantry.auth.key')
const keyText = Symbol('tenantry.auth.key.text')

/**
 * The claims of a tenant's key: those of a caller, and `api_key`, its id.
 *
 * @param text the result of `keyTextIdOf`, which changes with a rotation
 */
export function claimsOfKey<C extends object> (id: string, text: string, claims: C): C & { readonly api_key: string } {
  return Object.freeze({ ...claims, api_key: id, [keyId]: id, [keyText]: text })
}

/** The id of the tenant's API key that the caller sent; undefined for a token. */
export function apiKeyIdOf (claims: object): string | undefined {
  return keyId in claims ? String(claims[keyId]) : undefined
}

/** Identifies the text of the tenant's API key that the caller sent; undefined for a token. */
export function keyTextOf (claims: object): string | undefined {
  return keyText in claims ? String(claims[keyText]) : undefined
}

/** Identifies the text of a tenant's key by a part of its hash, which is enough to tell the texts of one key apart. */
export function keyTextIdOf (hash: Buffer): string {
  return hash.toString('base64url', 0, 12)
}
