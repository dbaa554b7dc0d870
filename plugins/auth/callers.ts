/** Who calls besides the owners of tokens, and what roles give: what other plugins teach this one. */
import type { Claims } from '../../lib/compiler/types.js'
import { hash, timingSafeEqual } from 'node:crypto'
import { tokenInvalid } from './errors.js'
import { noPermissions, unionOf, type PermissionSet } from './permissions.js'

const maxKeyLength = 256 // characters; longer ones are not looked at
const platformKey = /^[\x21-\x7e]{16,256}$/
const platformClaims: Claims = Object.freeze({ sub: 'api-key', role: 'admin' })

/** Marks the claims of the owner of a tenant's key; nobody can claim it in a token, whoever has signed that. */
const keyId = Symbol('tenantry.auth.key')

/** The claims of the owner of a tenant's key: those, and `api_key`, its id. */
export function claimsOfKey (id: string, claims: Claims): Claims {
  return Object.freeze({ ...claims, api_key: id, [keyId]: id })
}

/** The id of the tenant's key that was sent in place of a token; undefined for the owner of a token. */
export function keyOf (claims: Claims): string | undefined {
  return keyId in claims ? String(claims[keyId]) : undefined
}

/** Throws, or rejects with, `rateLimited` where the sender has asked for too many keys that are nobody's. */
export type Admit = () => void | Promise<void>

/**
 * The claims of a key's owner, frozen; null where there is no such key or it no longer holds. It calls `admit`, and waits
 * for it, before it looks for a key that it does not remember: guesses cost nothing beyond a limit.
 */
export type FindApiKey = (key: string, admit: Admit) => Claims | null | Promise<Claims | null>

/** What a caller's role gives it in the tenant of the request, besides the caller's own `permissions`. */
export type PermissionsOf = (auth: Claims, tenant?: string) => PermissionSet | Promise<PermissionSet>

export interface Callers {
  /** Registers where the keys of the header `x-api-key` are looked up that are not the platform's. Throws for a second one. */
  useApiKeys (find: FindApiKey): void
  /**
   * Registers what roles give; several add up. What was given at once is remembered with the caller's claims: the function
   * that this returns is to be called whenever anything gives something else.
   */
  useRoles (permissionsOf: PermissionsOf): () => void
  /** The claims of a key's owner, at once where they are known; throws `tokenInvalid`, or rejects with it. */
  identify (key: string, admit?: Admit): Claims | Promise<Claims>
  /** What the caller's role gives it, at once where that is known. */
  readonly permissionsOf: PermissionsOf
}

/** What a caller holds in a tenant. */
interface Given {
  readonly tenant: string | undefined
  readonly held: PermissionSet
}

/**
 * @param apiKey the platform's key: its owner is a platform administrator. Throws for one that is too short to be a
 * secret, or that no header can hold.
 */
export function createCallers (apiKey?: string): Callers {
  if (apiKey !== undefined && !platformKey.test(apiKey)) {
    throw new Error(`the platform's API key (the setting API_KEY) has ${apiKey.length} characters: expected 16 to 256 visible ASCII characters`)
  }
  const platform = apiKey === undefined ? null : digest(apiKey)
  const sources: PermissionsOf[] = []
  let find: FindApiKey | null = null
  let remembered = new WeakMap<Claims, Given>()
  const forget = () => { remembered = new WeakMap() }

  function given (auth: Claims, tenant?: string): PermissionSet | Promise<PermissionSet> {
    let held = noPermissions
    let asked = 0
    for (const source of sources) {
      const given = source(auth, tenant)
      asked++
      if (given instanceof Promise) return allOf([held, given], sources.slice(asked), auth, tenant)
      if (given !== noPermissions) held = held === noPermissions ? given : unionOf([held, given])
    }
    return held
  }

  return {
    useApiKeys (other) {
      if (find !== null) throw new Error('API keys are looked up in one place: a plugin has registered itself already')
      find = other
    },
    useRoles (permissionsOf) {
      sources.push(permissionsOf)
      forget()
      return forget
    },
    identify (key, admit = () => {}) {
      if (key === '' || key.length > maxKeyLength) throw tokenInvalid()
      // Digests are of one length, and comparing them tells nothing about the key.
      if (platform !== null && timingSafeEqual(digest(key), platform)) return platformClaims
      const found = find === null ? null : find(key, admit)
      return found instanceof Promise ? found.then(known) : known(found)
    },
    // Asked with every request. The claims of a token are one object as long as the token is remembered.
    permissionsOf (auth, tenant) {
      const known = remembered.get(auth)
      if (known !== undefined && known.tenant === tenant) return known.held
      const held = given(auth, tenant)
      if (!(held instanceof Promise)) remembered.set(auth, { tenant, held })
      return held
    }
  }
}

function known (claims: Claims | null): Claims {
  if (claims === null) throw tokenInvalid()
  return claims
}

/** What is given already, and what the other sources give; they do not wait for each other. */
async function allOf (given: readonly (PermissionSet | Promise<PermissionSet>)[], others: readonly PermissionsOf[], auth: Claims, tenant?: string): Promise<PermissionSet> {
  return unionOf(await Promise.all([...given, ...others.map((source) => source(auth, tenant))]))
}

function digest (key: string): Buffer {
  return hash('sha256', key, 'buffer')
}
