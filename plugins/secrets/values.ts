/** The values of tenants' secrets, decrypted and cached for at most a minute. */
import type { FastifyInstance } from 'fastify'
import { createAsyncCache, whenKnown } from '../../lib/cache/async-cache.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { type SecretCipher, SecretUnreadable } from '../../lib/secrets/cipher.js'
import type { EarlierRow, SealedRow, SecretStore } from './store.js'

const maxAgeMs = 60_000
const maxCharacters = 67_108_864 // of all cached values: 64 MB, or twice that for non-Latin text
const pageBytes = 524_288 // of ciphertexts that are read and decrypted at once; the event loop runs between two pages

/** The secrets of a tenant. A missing key does not exist or cannot be decrypted; null means expired. */
export type SecretValues = ReadonlyMap<string, string | null>

export interface EarlierValue {
  readonly value: string
  readonly until: number
}

export interface CachedValues {
  /** The current values; another map after one has expired. */
  values: SecretValues
  /** Values before a rotation, each with its end in ms; the newest first. */
  readonly previous: ReadonlyMap<string, readonly EarlierValue[]>
  /** The next expiry, in ms; Infinity without one. */
  nextExpiry: number
  /** Values with an expiry, with the time in ms. */
  readonly expiries: ReadonlyMap<string, number>
  readonly weight: number
}

/** @param onExpired called for expired values whose expiry is not in the audit log yet */
export function createTenantValues (
  { log, tenancy }: FastifyInstance,
  store: SecretStore,
  cipher: SecretCipher,
  now: () => number,
  onExpired: (tenant: Owner) => void
) {
  const cache = createAsyncCache<CachedValues, Owner>({
    max: tenancy.maxRemembered,
    maxAgeMs,
    load,
    weight: { max: maxCharacters, of: ({ weight }) => weight }
  })

  async function load (tenant: Owner): Promise<CachedValues> {
    const values = new Map<string, string | null>()
    const previous = new Map<string, readonly EarlierValue[]>()
    const expiries = new Map<string, number>()
    const expired: string[] = []
    const time = now()
    let nextExpiry = Infinity
    let weight = 1
    for (let after = '', more = true; more;) {
      const page = await store.sealed(tenant, after, pageBytes)
      const last = page.rows.at(-1)?.key ?? after
      // Read after the page: a concurrent rotation moves a value from there to here.
      const earlier = new Map<string, EarlierRow[]>()
      for (const row of page.rows.length === 0 ? [] : await store.earlier(tenant, after, last)) {
        earlier.set(row.key, [...earlier.get(row.key) ?? [], row])
      }
      after = last
      more = page.more
      for (const row of page.rows) {
        const { key, expiresAt, expiredAt } = row
        weight += key.length
        if (expiresAt !== null && expiresAt.getTime() <= time) {
          values.set(key, null)
          if (expiredAt === null) expired.push(key)
          continue
        }
        const value = read(tenant, key, row.version, row.value)
        if (value === undefined) continue
        values.set(key, value)
        weight += value.length
        if (expiresAt !== null) {
          expiries.set(key, expiresAt.getTime())
          nextExpiry = Math.min(nextExpiry, expiresAt.getTime())
        }
        const accepted = acceptedOf(tenant, [...latestOf(row), ...earlier.get(key) ?? []], time)
        if (accepted.length > 0) previous.set(key, accepted)
        for (const before of accepted) weight += before.value.length
      }
    }
    if (expired.length > 0) emitExpired(tenant, expired)
    return { values, previous, expiries, nextExpiry, weight }
  }

  /** The earlier values that are accepted at this time. */
  function acceptedOf (tenant: Owner, sealed: readonly EarlierRow[], time: number): EarlierValue[] {
    return sealed.filter(({ validUntil }) => validUntil.getTime() > time).flatMap(({ key, version, value: ciphertext, validUntil }) => {
      const value = read(tenant, key, version, ciphertext)
      return value === undefined ? [] : [{ value, until: validUntil.getTime() }]
    })
  }

  function read (tenant: Owner, key: string, version: number, ciphertext: Buffer): string | undefined {
    try {
      return cipher.decrypt({ tenant, key, version }, ciphertext)
    } catch (error) {
      if (!(error instanceof SecretUnreadable)) throw error
      log.error({ tenant, key, version, reason: error.message }, 'a secret cannot be decrypted: it counts as missing')
      return undefined
    }
  }

  /** Values expire by the clock, also while they are cached. */
  function current (tenant: Owner, kept: CachedValues): CachedValues {
    const time = now()
    if (time < kept.nextExpiry) return kept
    const values = new Map(kept.values)
    const expired: string[] = []
    let next = Infinity
    for (const [key, at] of kept.expiries) {
      if (at > time) {
        next = Math.min(next, at)
      } else if (values.get(key) !== null) {
        values.set(key, null)
        expired.push(key)
      }
    }
    kept.values = values
    kept.nextExpiry = next
    emitExpired(tenant, expired)
    return kept
  }

  function emitExpired (tenant: Owner, keys: readonly string[]): void {
    log.warn({ tenant, keys }, 'secrets have expired: their values are null')
    onExpired(tenant)
  }

  return {
    /** Synchronous if they are cached. */
    get (tenant: Owner): CachedValues | Promise<CachedValues> {
      return whenKnown(cache.get(tenant), (loaded) => current(tenant, loaded))
    },
    /** The cached values; reads nothing. */
    peek: cache.peek,
    forget: cache.invalidate,
    clear: cache.clear
  }
}

/** The earlier value in the row of the secret. */
function latestOf ({ key, previousValue, previousVersion, previousValidUntil }: SealedRow): EarlierRow[] {
  return previousValue === null || previousVersion === null || previousValidUntil === null
    ? []
    : [{ key, version: previousVersion, value: previousValue, validUntil: previousValidUntil }]
}
