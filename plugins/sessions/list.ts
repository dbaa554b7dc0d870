/**
 * The ended tokens that this process knows: lists of the tenants whose tokens it has seen. A list is read whole when it is needed
 * and dropped with each change. A list that was dropped and is read again is complete.
 */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { Claims } from '../../lib/expressions/types.js'
import type { RevocationList } from '../auth/revocations.js'
import type { ListOwner, Owners } from './owner.js'
import type { ReadRevocations, RevocationStore } from './store.js'
import { sqlStateOf } from '../../lib/database/failures.js'
import { createAsyncCache } from '../../lib/cache/async-cache.js'
import { whenKnown } from '../../lib/concurrency/when-known.js'
import { isAfter, keptMark, sessionMark, sessionOf, subjectOf } from './sequence.js'

const maxWeight = 67_108_864 // bytes, about, of all lists that are remembered
const [bytesPerTenant, bytesPerToken, bytesPerEnd] = [400, 120, 300] // measured

/** What was ended, of whom one list is. */
interface OwnedList {
  readonly tokens: ReadonlySet<string>
  /** By the subject; that of all users is empty. What it says is read when it is asked for: there may be thousands. */
  readonly ends: ReadonlyMap<string, string>
}

export interface Revocations extends RevocationList {
  /** Something of the tenant was ended; of the empty one, of a user who has none. */
  changed(tenant: Owner): void
  /** Anything may have been ended. */
  missed(): void
}

export interface RevocationsParts {
  /** Tenants whose lists are remembered at most. */
  readonly maxTenants: number
  readonly store: Pick<RevocationStore, 'read'>
  readonly owners: Owners
  /** The clock, in milliseconds since 1970. */
  readonly now: () => number
}

export function createRevocations ({ maxTenants, store, owners, now }: RevocationsParts): Revocations {
  let version = 1
  const lists = createAsyncCache<OwnedList, ListOwner>({
    max: maxTenants,
    weight: { max: maxWeight, of: ({ tokens, ends }) => bytesPerTenant + tokens.size * bytesPerToken + ends.size * bytesPerEnd },
    load: async (owner) => listOf(await store.read(owner, new Date(now())).catch(unmigrated))
  })

  function judge ({ tokens, ends }: OwnedList, claims: Claims, id: () => string): boolean {
    const session = tokens.size > 0 ? sessionOf(claims) : null
    if (tokens.size > 0 && tokens.has(id())) return true
    if (session !== null && tokens.has(sessionMark(claims.sub, session, 'base64url'))) return true
    if (ends.size === 0) return false
    const time = now()
    const sequence = sequenceIn(ends.get(subjectOf(claims.sub, 'base64')), time) ?? sequenceIn(ends.get(''), time)
    if (sequence === null || isAfter(claims, sequence, time)) return false
    return session === null || !tokens.has(keptMark(claims.sub, session, sequence, 'base64url'))
  }

  return {
    get version () {
      return version
    },
    refuses (claims, id) {
      const list = lists.get(owners.of(claims))
      return whenKnown(list, (read) => judge(read, claims, id))
    },
    changed (tenant) {
      for (const owner of owners.toldOf(tenant)) lists.invalidate(owner)
      version++
    },
    missed () {
      lists.clear()
      version++
    }
  }
}

/** The session sequence that the end began, `<sequence> <until>`; null where nothing of before it is alive any longer. */
function sequenceIn (end: string | undefined, time: number): number | null {
  if (end === undefined) return null
  const [sequence, until] = end.split(' ')
  return time < Number(until) ? Number(sequence) : null
}

function listOf ({ tokens, ends }: ReadRevocations): OwnedList {
  const bySubject = new Map<string, string>()
  for (const text of ends?.split(',') ?? []) {
    const space = text.indexOf(' ')
    bySubject.set(text.slice(0, space), text.slice(space + 1))
  }
  return { tokens: new Set(tokens?.split(' ')), ends: bySubject }
}

const missing = ['42P01', '3F000'] // SQLSTATEs: no such table, no such schema

/** Without the table no token was ended. The administrator who migrates must be able to log in. The first change brings a notice. */
function unmigrated (error: unknown): ReadRevocations {
  if (error instanceof Error && missing.includes(sqlStateOf(error.cause) ?? '')) return { tokens: null, ends: null }
  throw error
}
