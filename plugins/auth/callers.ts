/** Callers with API keys, and the permissions of roles. */
import { createHmac, hash, timingSafeEqual } from 'node:crypto'
import { whenKnown } from '../../lib/cache/async-cache.js'
import type { Claims } from '../../lib/expressions/types.js'
import { apiKeyIdOf } from '../../lib/identity/api-key-claims.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { apiKeyUnknown } from './errors.js'
import { type PermissionSet, unionOf } from './permissions.js'
import type { Admit, RoleSource, Sources } from './sources.js'

const maxKeyLength = 256 // characters; longer keys are refused without a look-up
const platformKey = /^[\x21-\x7e]{16,256}$/

/** The claims of every caller with the platform's key. */
export const platformClaims: Claims = Object.freeze({ sub: 'api-key', role: 'admin' })

/** Whether the caller sent an API key, of a tenant or of the platform, instead of a token. */
export function isOfApiKey (claims: Claims): boolean {
  return apiKeyIdOf(claims) !== undefined || isOfPlatformKey(claims)
}

export function isOfPlatformKey (claims: Claims): boolean {
  return claims === platformClaims
}

/** Identifies the platform's key without revealing it. */
export function platformKeyId (apiKey: string): string {
  return createHmac('sha256', apiKey).update('tenantry platform key id').digest('base64url').slice(0, 11)
}

export interface Callers {
  /** Drops the cached permissions. Call it after a change of a role, or of a user's roles. */
  forgetPermissions(): void
  /** The claims of a key's owner, at once if they are known; throws, or rejects with, `tokenInvalid`. */
  identify(key: string, admit?: Admit): Claims | Promise<Claims>
  /** The permissions of the caller's roles, besides the caller's own `permissions`; at once if they are in memory. */
  readonly permissionsOf: RoleSource['permissionsOf']
}

/**
 * @param apiKey the platform's key, whose owner is a platform administrator. Throws for a key that is too short, or invalid in a header.
 */
export function createCallers (apiKey: string | undefined, { apiKeys, roles }: Sources): Callers {
  if (apiKey !== undefined && !platformKey.test(apiKey)) {
    throw new Error(
      `the platform's API key (the setting API_KEY) has ${apiKey.length} characters: expected 16 to 256 visible ASCII characters`
    )
  }
  const platform = apiKey === undefined ? null : digest(apiKey)
  /** The permissions of a caller in a tenant. */
  let remembered = new WeakMap<Claims, { readonly tenant: Owner | undefined, readonly held: PermissionSet }>()

  function permissionsOfRoles (auth: Claims, tenant?: Owner): PermissionSet | Promise<PermissionSet> {
    const sets = roles().map((source) => source.permissionsOf(auth, tenant))
    const known = sets.filter((set): set is PermissionSet => !(set instanceof Promise))
    return known.length === sets.length ? unionOf(known) : Promise.all(sets).then(unionOf)
  }

  return {
    forgetPermissions () {
      remembered = new WeakMap()
    },
    identify (key, admit = () => {}) {
      if (key === '' || key.length > maxKeyLength) throw apiKeyUnknown()
      // Digests have equal length, and comparing them reveals nothing about the key.
      if (platform !== null && timingSafeEqual(digest(key), platform)) return platformClaims
      return whenKnown(apiKeys()?.find(key, admit) ?? null, requireKnown)
    },
    // Called for every request. The claims of a cached token are one object.
    permissionsOf (auth, tenant) {
      const known = remembered.get(auth)
      if (known !== undefined && known.tenant === tenant) return known.held
      const held = permissionsOfRoles(auth, tenant)
      if (!(held instanceof Promise)) remembered.set(auth, { tenant, held })
      return held
    }
  }
}

function requireKnown (claims: Claims | null): Claims {
  if (claims === null) throw apiKeyUnknown()
  return claims
}

function digest (key: string): Buffer {
  return hash('sha256', key, 'buffer')
}
