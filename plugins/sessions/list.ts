/**
 * Which tokens were ended, as this process knows it: the lists of those tenants whose tokens it was shown, read whole when
 * one is wanted and forgotten with each change. A list that left the memory and is read again lacks nothing.
 */
import type { Claims } from '../../lib/compiler/types.js'
import type { RevocationList } from '../auth/revocations.js'
import type { ReadRevocations, RevocationStore } from './store.js'
import { sqlStateOf } from '../../lib/database/failures.js'
import { createLoadCache } from '../../lib/load-cache.js'
import { isAfter, subjectOf } from './sequence.js'

const maxWeight = 67_108_864 // bytes, about, of all lists that are remembered
const [bytesPerTenant, bytesPerToken, bytesPerEnd] = [400, 120, 300] // measured

/** When all that a user or a tenant had was ended. */
interface Ended {
  /** The session sequence since then. */
  readonly sequence: number
  /** Milliseconds since 1970: none of it is alive any longer. */
  readonly until: number
}

/** What of a tenant was ended. */
interface TenantList {
  readonly tokens: ReadonlySet<string>
  /** By the subject; that of all users is empty. */
  readonly ends: ReadonlyMap<string, Ended>
}

export interface Revocations extends RevocationList {
  /** Something of the tenant was ended. */
  changed (tenant: string): void
  /** Anything may have been ended. */
  missed (): void
}

export interface RevocationsParts {
  /** Tenants whose lists are remembered at most. */
  readonly maxTenants: number
  readonly store: Pick<RevocationStore, 'read'>
  /** The clock, in milliseconds since 1970. */
  readonly now: () => number
}

export function createRevocations ({ maxTenants, store, now }: RevocationsParts): Revocations {
  let version = 1
  const lists = createLoadCache<TenantList>({
    max: maxTenants,
    weight: { max: maxWeight, of: ({ tokens, ends }) => bytesPerTenant + tokens.size * bytesPerToken + ends.size * bytesPerEnd },
    load: async (tenant) => listOf(await store.read(tenant, new Date(now())).catch(unmigrated))
  })

  function judge ({ tokens, ends }: TenantList, claims: Claims, id: () => string): boolean {
    if (tokens.size > 0 && tokens.has(id())) return true
    if (ends.size === 0) return false
    const time = now()
    const ended = alive(ends.get(subjectOf(claims.sub, 'base64url')), time) ?? alive(ends.get(''), time)
    return ended !== undefined && !isAfter(claims, ended.sequence)
  }

  return {
    get version () { return version },
    refuses (claims, id) {
      const list = lists.get(claims.tenant_id ?? '')
      return list instanceof Promise ? list.then((read) => judge(read, claims, id)) : judge(list, claims, id)
    },
    changed (tenant) {
      lists.forget(tenant)
      version++
    },
    missed () {
      lists.clear()
      version++
    }
  }
}

function alive (ended: Ended | undefined, time: number): Ended | undefined {
  return ended !== undefined && time < ended.until ? ended : undefined
}

function listOf ({ tokens, ends }: ReadRevocations): TenantList {
  return {
    tokens: new Set(tokens?.split(' ')),
    ends: new Map(ends?.split(',').map((text) => {
      const [subject = '', sequence, until] = text.split(' ')
      return [subject, { sequence: Number(sequence), until: Number(until) }]
    }))
  }
}

const missing = ['42P01', '3F000'] // SQLSTATEs: no such table, no such schema

/** Before the table was made nothing was ended, and whoever may make it must be let in to do so. The first change brings a notice. */
function unmigrated (error: unknown): ReadRevocations {
  if (error instanceof Error && missing.includes(sqlStateOf(error.cause) ?? '')) return { tokens: null, ends: null }
  throw error
}
