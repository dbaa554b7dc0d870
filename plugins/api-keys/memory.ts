/**
 * Keys in this process's memory: the tenant of each id, which never changes, and the keys of each tenant, which a change removes. Unknown
 * ids are kept apart, few and for a short time: many of them displace only each other.
 */
import { timingSafeEqual } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { createAsyncCache, whenKnown } from '../../lib/cache/async-cache.js'
import { lruOptions } from '../../lib/cache/lru-options.js'
import type { UseCounter } from '../../lib/concurrency/use-counter.js'
import type { Claims } from '../../lib/expressions/types.js'
import { claimsOfKey, keyTextIdOf, keyTextOf } from '../../lib/identity/api-key-claims.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { tokenHash } from '../../lib/identity/token-hash.js'
import type { Admit } from '../auth/sources.js'
import { type ApiKeyStore, idOf, type KeyRow, subOfKey } from './store.js'

const maxIds = 100_000
const maxWeight = 67_108_864 // bytes of all keys in memory, approximately
const maxLookups = 1000
const lookupAge = 60_000 // ms that an unknown id is remembered: ids are random, so none appears after it was looked up

/** The members of a key that requests need. */
interface LiveKey {
  /** Milliseconds since 1970. */
  readonly expires: number
  /** The current text, then the previous one. */
  readonly texts: readonly KeyText[]
}

interface KeyText {
  readonly hash: Buffer
  /** Milliseconds since 1970; Infinity: as long as the key. */
  readonly until: number
  readonly claims: Claims
}

interface TenantKeys {
  readonly keys: ReadonlyMap<string, LiveKey>
  readonly weight: number
}

/** @param maxTenants the highest number of tenants with keys in memory */
export function createKeyMemory (maxTenants: number, store: ApiKeyStore, uses: UseCounter, now: () => number) {
  const tenants = new LRUCache<string, Owner>(lruOptions(maxIds))
  const lookups = createAsyncCache<{ readonly tenant: Owner | null }>({
    max: maxLookups,
    maxAgeMs: lookupAge,
    load: async (id) => ({ tenant: await store.tenantOf(id) })
  })
  const keysOf = createAsyncCache<TenantKeys, Owner>({
    max: maxTenants,
    weight: { max: maxWeight, of: ({ weight }) => weight },
    async load (tenant) {
      const rows = await store.read(tenant)
      return {
        keys: new Map(rows.map((row) => [row.id, liveKey(tenant, row)])),
        // Approximate bytes in memory.
        weight: rows.reduce((sum, { scopes }) => scopes.reduce((weight, scope) => weight + 64 + scope.length, sum + 800), 500)
      }
    }
  })

  async function lookUp (id: string, text: string, admit: Admit): Promise<Claims | null> {
    if (lookups.peek(id) === undefined) await admit()
    const { tenant } = await lookups.get(id)
    if (tenant === null) return null
    tenants.set(id, tenant)
    // Another server may have created the key just now, before its notice arrives here.
    if (keysOf.peek(tenant)?.keys.has(id) === false) keysOf.invalidate(tenant)
    return judge(await keysOf.get(tenant), tenant, id, text)
  }

  function judge ({ keys }: TenantKeys, tenant: Owner, id: string, text: string): Claims | null {
    const time = now()
    const digest = tokenHash(text)
    const found = validTexts(keys.get(id), time).find(({ hash }) => timingSafeEqual(hash, digest))
    if (found === undefined) return null
    uses.count(tenant, id, time)
    return found.claims
  }

  return {
    /** The claims of the key's owner, at once if they are in memory; null if the key is not valid. */
    find (text: string, admit: Admit): Claims | null | Promise<Claims | null> {
      const id = idOf(text)
      if (id === null) return null
      const tenant = tenants.get(id)
      if (tenant === undefined) return lookUp(id, text, admit)
      return whenKnown(keysOf.get(tenant), (read) => judge(read, tenant, id, text))
    },
    recall (tenant: Owner, id: string, text: string): Claims | null | Promise<Claims | null> {
      return whenKnown(
        keysOf.get(tenant),
        ({ keys }) => validTexts(keys.get(id), now()).find(({ claims }) => keyTextOf(claims) === text)?.claims ?? null
      )
    },
    /** The keys of the tenant have changed. */
    forget: keysOf.invalidate,
    clear (): void {
      tenants.clear()
      lookups.clear()
      keysOf.clear()
    }
  }
}

function validTexts (key: LiveKey | undefined, time: number): readonly KeyText[] {
  return key === undefined || time >= key.expires ? [] : key.texts.filter(({ until }) => time < until)
}

function liveKey (
  tenant: Owner,
  { id, hash, previous_hash: previousHash, previous_valid_until: until, expires_at: expires, scopes }: KeyRow
): LiveKey {
  const claims = { sub: subOfKey(id), tenant_id: tenant, permissions: Object.freeze(scopes) }
  // Claims are shared by requests.
  const text = (hash: Buffer, until: number) => ({ hash, until, claims: claimsOfKey(id, keyTextIdOf(hash), claims) })
  return {
    expires: expires?.getTime() ?? Infinity,
    texts: [text(hash, Infinity), ...previousHash === null || until === null ? [] : [text(previousHash, until.getTime())]]
  }
}
