/** Refuses writes of a caller whose user, session, role or API key has ended. */
import type { Kysely } from 'kysely'
import type { SystemTables } from '../../lib/database/system-tables.js'
import type { Claims } from '../../lib/expressions/types.js'
import { apiKeyIdOf, keyTextIdOf, keyTextOf } from '../../lib/identity/api-key-claims.js'
import { isOfLogin } from '../../lib/identity/session-claims.js'
import { type Owner, tenantOfToken } from '../../lib/identity/tenant-ref.js'
import { isOfPlatformKey } from '../auth/callers.js'
import { tokenInvalid } from '../auth/errors.js'
import { isEnded, listOf } from './list.js'
import { createOwners, type ListOwner } from './owners.js'
import { subjectOf } from './sequence.js'
import { createRevocationStore } from './store.js'

/**
 * Throws `tokenInvalid` if the caller has ended: its API key was deleted or rotated, its token was logged out, or its user was disabled,
 * deleted or given another role. Call it before a write with which the caller could come back or gain permissions, with the tenant
 * locked `alone`, as those changes are. Of tokens of other issuers it sees only a logout everywhere.
 *
 * @param at the current time
 * @param providers the names of the external providers
 */
export async function requirePresent (
  writer: Kysely<SystemTables>,
  claims: Claims,
  at: Date,
  providers: readonly string[]
): Promise<void> {
  if (isOfPlatformKey(claims)) return
  const tenant = tenantOfToken(claims)
  const key = apiKeyIdOf(claims)
  const isPresent = key === undefined
    ? await hasUser(writer, tenant, claims) && !await isLoggedOut(writer, createOwners(providers).of(claims), claims, at)
    : await hasKey(writer, tenant, key, keyTextOf(claims))
  if (!isPresent) throw tokenInvalid()
}

async function hasKey (reader: Kysely<SystemTables>, tenant: Owner, id: string, text: string | undefined): Promise<boolean> {
  const row = await reader.selectFrom('tenantry.api_keys').select(['hash', 'previous_hash']).where('tenant_id', '=', tenant)
    .where('id', '=', id).executeTakeFirst()
  return [row?.hash, row?.previous_hash].some((hash) => hash !== undefined && hash !== null && keyTextIdOf(hash) === text)
}

/** True for users of other issuers. */
async function hasUser (reader: Kysely<SystemTables>, tenant: Owner, claims: Claims): Promise<boolean> {
  const { sub, role } = claims
  if (!isOfLogin(claims)) return true
  const row = await reader.selectFrom('tenantry.users').select('role').where('tenant_id', '=', tenant).where('id', '=', sub)
    .where('status', '=', 'active').executeTakeFirst()
  return row !== undefined && row.role === role
}

async function isLoggedOut (reader: Kysely<SystemTables>, owner: ListOwner, claims: Claims, at: Date): Promise<boolean> {
  const ended = await createRevocationStore(reader).read(owner, at, subjectOf(claims.sub))
  // The id of a token is made from its text, which is not at hand.
  return isEnded(listOf(ended), claims, () => '', at.getTime())
}
