/** Limits the kept keys and bytes of a tenant. Servers count separately between reads of the database. */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { IdempotencyStore, KeyTotals } from './store.js'
import { LRUCache } from 'lru-cache'
import { failure } from '../../lib/errors.js'
import { lruOptions } from '../../lib/cache/lru-options.js'

export const maxKeys = 10_000 // of a tenant, by callers with credentials
export const maxAnonymousKeys = 1000 // of a tenant, by callers without credentials, so that they cannot use up the keys of others
export const maxBytes = 33_554_432 // of a tenant

const maxAge = 10_000 // ms after which the figures are read again
const maxTenants = 1000 // tenants with figures in memory
const retryAfter = '60' // s

interface Figures {
  callers: number
  anonymous: number
  bytes: number
  readonly readAt: number
}

export interface KeyQuota {
  /** Counts the key. Throws `idempotencyFull` beyond the limit. */
  take(tenant: Owner, isAnonymous: boolean): Promise<void>
  /** Counts bytes of a response. */
  keep(tenant: Owner, bytes: number): void
}

export function createKeyQuota (store: Pick<IdempotencyStore, 'kept'>, now: () => number): KeyQuota {
  const known = new LRUCache<string, Figures>(lruOptions(maxTenants))

  async function figuresOf (tenant: Owner): Promise<Figures> {
    const found = known.get(tenant)
    if (found !== undefined && now() - found.readAt < maxAge) return found
    const readAt = now()
    const kept: KeyTotals = await store.kept(tenant, new Date(readAt))
    const figures = { ...kept, readAt }
    known.set(tenant, figures)
    return figures
  }

  return {
    async take (tenant, isAnonymous) {
      const figures = await figuresOf(tenant)
      const isFull = figures.bytes >= maxBytes || (isAnonymous ? figures.anonymous >= maxAnonymousKeys : figures.callers >= maxKeys)
      if (isFull) throw failure('idempotencyFull', { extras: { retryAfter: Number(retryAfter) }, headers: { 'retry-after': retryAfter } })
      if (isAnonymous) figures.anonymous++
      else figures.callers++
    },
    keep (tenant, bytes) {
      const figures = known.get(tenant)
      if (figures !== undefined) figures.bytes += bytes
    }
  }
}
