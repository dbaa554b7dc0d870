/** Bounds of the keys that a tenant and each of its callers have stored. */
import { createAsyncCache } from '../../lib/cache/async-cache.js'
import { failure, retryIn } from '../../lib/errors.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'

export const maxKeys = 10_000 // of a tenant, by callers with credentials
export const maxBytes = 33_554_432
// Callers without credentials have bounds of their own, so that they cannot use up those of others.
export const maxAnonymousKeys = 1000
export const maxAnonymousBytes = 4_194_304

const share = 0.25 // of the bounds, for one caller
/** The part of a bound from which the keys of one caller are read by themselves, so that few are read. */
export const noted = 0.025
/** The first bytes of a key's id name its caller. */
export const callerBytes = 16

const maxAge = 10_000 // ms after which the figures are read again
const maxTenants = 1000 // tenants with figures in memory
const retryAfter = 60 // s

interface KeyTotal {
  keys: number
  bytes: number
}

export interface KeptKeys extends KeyTotal {
  /** By caller, in hexadecimal digits. */
  readonly ofCallers: Map<string, KeyTotal>
}

/** The request that uses a key. */
export interface KeyUse {
  readonly tenant: Owner
  readonly id: Buffer
  readonly isAnonymous: boolean
  /** The keys of others do not limit an administrator of the platform. */
  readonly isAdmin: boolean
}

export interface QuotaStore {
  /** Callers with few keys may be absent. */
  kept(tenant: Owner): Promise<{ readonly callers: KeptKeys, readonly anonymous: KeptKeys }>
}

export function createKeyQuota (store: QuotaStore, now?: () => number) {
  const known = createAsyncCache<Awaited<ReturnType<QuotaStore['kept']>>, Owner>({
    max: maxTenants,
    maxAgeMs: maxAge,
    load: (tenant) => store.kept(tenant),
    ...now !== undefined && { now }
  })

  function add ({ tenant, id, isAnonymous }: KeyUse, keys: number, bytes: number): void {
    const figures = known.peek(tenant)
    if (figures === undefined) return
    const total = figures[isAnonymous ? 'anonymous' : 'callers']
    const own = ofCaller(total, id)
    total.ofCallers.set(callerOf(id), own)
    for (const each of [total, own]) {
      each.keys += keys
      each.bytes += bytes
    }
  }

  return {
    /** Counts the key. Throws `idempotencyFull` beyond a bound. */
    async take (use: KeyUse): Promise<void> {
      const { callers, anonymous } = await known.get(use.tenant)
      const total = use.isAnonymous ? anonymous : callers
      const [keys, bytes] = use.isAnonymous ? [maxAnonymousKeys, maxAnonymousBytes] : [maxKeys, maxBytes]
      const isFull = (found: KeyTotal, part: number) => found.keys >= keys * part || found.bytes >= bytes * part
      if ((!use.isAdmin && isFull(total, 1)) || isFull(ofCaller(total, use.id), share)) throw failure('idempotencyFull', retryIn(retryAfter))
      add(use, 1, 0)
    },
    /** The key was freed. */
    give: (use: KeyUse) => add(use, -1, 0),
    /** Counts bytes of a stored response. */
    keep: (use: KeyUse, bytes: number) => add(use, 0, bytes)
  }
}

function ofCaller ({ ofCallers }: KeptKeys, id: Buffer): KeyTotal {
  return ofCallers.get(callerOf(id)) ?? { keys: 0, bytes: 0 }
}

function callerOf (id: Buffer): string {
  return id.toString('hex', 0, callerBytes)
}
