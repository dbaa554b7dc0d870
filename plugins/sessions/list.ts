/**
 * The ended tokens that this process knows: one list for each tenant whose tokens it has seen. A list is read as a whole when it is
 * needed, and dropped with each change. So a list is always complete.
 */
import { createAsyncCache, whenKnown } from '../../lib/cache/async-cache.js'
import { sqlStateOf } from '../../lib/database/failures.js'
import type { Claims } from '../../lib/expressions/types.js'
import { sessionOf } from '../../lib/identity/session-claims.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { ListOwner, Owners } from './owners.js'
import { isAfter, keptMark, sessionMark, subjectOf } from './sequence.js'
import type { ReadRevocations, RevocationStore } from './store.js'

const maxWeight = 67_108_864 // bytes, approximately, of all cached lists
const [bytesPerTenant, bytesPerToken, bytesPerEnd] = [400, 120, 300] // measured

/** Ended tokens and sessions of one list. */
interface OwnedList {
  readonly tokens: ReadonlySet<string>
  /** By subject; the empty one means all users. Values are parsed when they are needed: there may be thousands. */
  readonly ends: ReadonlyMap<string, string>
}

/**
 * @param maxTenants the maximum number of tenants with cached lists
 * @param now the clock, in milliseconds since 1970
 */
export function createRevocations (store: Pick<RevocationStore, 'read'>, owners: Owners, maxTenants: number, now: () => number) {
  const lists = createAsyncCache<OwnedList, ListOwner>({
    max: maxTenants,
    weight: { max: maxWeight, of: ({ tokens, ends }) => bytesPerTenant + tokens.size * bytesPerToken + ends.size * bytesPerEnd },
    load: async (owner) => listOf(await store.read(owner, new Date(now())).catch(unmigrated))
  })

  const revocations = {
    version: 1,
    refuses (claims: Claims, id: () => string): boolean | Promise<boolean> {
      return whenKnown(lists.get(owners.of(claims)), (read) => isEnded(read, claims, id, now()))
    },
    /** Something of the tenant was ended; the empty tenant means users without one. */
    changed (tenant: Owner): void {
      for (const owner of owners.concernedBy(tenant)) lists.invalidate(owner)
      revocations.version++
    },
    /** Anything may have been ended. */
    missed (): void {
      lists.clear()
      revocations.version++
    }
  }
  return revocations
}

/** @param time the current time */
export function isEnded ({ tokens, ends }: OwnedList, claims: Claims, id: () => string, time: number): boolean {
  const session = tokens.size > 0 ? sessionOf(claims) : null
  if (tokens.size > 0 && tokens.has(id())) return true
  if (session !== null && tokens.has(sessionMark(claims.sub, session).toString('base64url'))) return true
  if (ends.size === 0) return false
  const sequence = sequenceIn(ends.get(subjectOf(claims.sub).toString('base64')), time) ?? sequenceIn(ends.get(''), time)
  if (sequence === null || isAfter(claims, sequence, time)) return false
  return session === null || !tokens.has(keptMark(claims, session, sequence).toString('base64url'))
}

/** The session sequence that the end began, `<sequence> <until>`; null if no earlier token is alive any longer. */
function sequenceIn (end: string | undefined, time: number): number | null {
  if (end === undefined) return null
  const [sequence, until] = end.split(' ')
  return time < Number(until) ? Number(sequence) : null
}

export function listOf ({ tokens, ends }: ReadRevocations): OwnedList {
  const bySubject = new Map<string, string>()
  for (const text of ends?.split(',') ?? []) {
    const space = text.indexOf(' ')
    bySubject.set(text.slice(0, space), text.slice(space + 1))
  }
  return { tokens: new Set(tokens?.split(' ')), ends: bySubject }
}

const missing = ['42P01', '3F000'] // SQLSTATEs: no such table, no such schema

/** Without the table no token was ended. The administrator must be able to log in to migrate. A notice follows the first change. */
function unmigrated (error: unknown): ReadRevocations {
  if (error instanceof Error && missing.includes(sqlStateOf(error.cause) ?? '')) return { tokens: null, ends: null }
  throw error
}
