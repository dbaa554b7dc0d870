/** Callers whose user or API key ends during their request. */
import type { Kysely } from 'kysely'
import type { SystemTables } from '../../lib/database/system-tables.js'
import type { Claims } from '../../lib/expressions/types.js'
import { tenantOfToken } from '../../lib/identity/tenant-ref.js'
import { isUuid } from '../../lib/identity/uuid.js'
import { keyOf } from '../auth/callers.js'
import { tokenInvalid } from '../auth/errors.js'
import { sequenceClaim, sessionOf } from './sequence.js'

/**
 * Throws `tokenInvalid` if the caller's user was disabled or deleted, or its API key was deleted. Call it before a write with which the
 * caller could come back, with the tenant locked `alone`, as in `changeUsers` and in the deletion of a key. Users of other issuers
 * always pass.
 */
export async function requirePresent (writer: Kysely<SystemTables>, claims: Claims): Promise<void> {
  const [tenant, key] = [tenantOfToken(claims), keyOf(claims)]
  if (key === undefined && !(isUuid(claims.sub) && sequenceClaim in claims && sessionOf(claims) !== null)) return
  const found = key === undefined
    ? writer.selectFrom('tenantry.users').select('id').where('tenant_id', '=', tenant).where('id', '=', claims.sub)
      .where('status', '=', 'active')
    : writer.selectFrom('tenantry.api_keys').select('id').where('tenant_id', '=', tenant).where('id', '=', key)
  if (await found.executeTakeFirst() === undefined) throw tokenInvalid()
}
