/** Checks once, at start, that the master keys decrypt the secrets of the database. */
import type { FastifyBaseLogger } from 'fastify'
import { type Kysely, sql } from 'kysely'
import { ifUnmigrated } from '../../lib/database/failures.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { SettingError } from '../../lib/schema/setting-error.js'
import { headerLength, keyIdOf } from '../../lib/secrets/cipher.js'
import type { MasterKeys } from '../../lib/secrets/master-key.js'

/** Throws if these keys decrypt no secret of the database; logs a warning if they decrypt only some. */
export async function refuseOtherKeys (db: Kysely<SystemTables>, keys: MasterKeys, log: FastifyBaseLogger): Promise<void> {
  const rows = await db.selectFrom('tenantry.secrets').distinct()
    .select(sql<Buffer>`substring(value from 1 for ${sql.lit(headerLength)})`.as('header')).where('value', 'is not', null)
    .execute().catch(ifUnmigrated([]))
  refuseUnknownKeys([...new Set(rows.map(({ header }) => keyIdOf(header)))], keys, 'secrets', log)
}

/**
 * The same check by the ids of the keys that encrypted the values.
 *
 * @param values the values, in words: `secrets`
 */
export function refuseUnknownKeys (ids: readonly string[], { known }: MasterKeys, values: string, log: FastifyBaseLogger): void {
  const unknown = ids.filter((id) => !known.has(id))
  if (unknown.length === 0) return
  const names = unknown.join(', ')
  if (unknown.length === ids.length) {
    throw new SettingError(
      `the ${values} in the database were encrypted under the master key ${names}, but this server has ${
        [...known.keys()].join(', ')
      }: set SECRETS_MASTER_KEY, or SECRETS_PREVIOUS_KEYS, to the key that encrypted them`
    )
  }
  log.error(
    { masterKeyIds: unknown },
    `some ${values} were encrypted under master keys that this server does not have, and count as missing: add them to SECRETS_PREVIOUS_KEYS`
  )
}
