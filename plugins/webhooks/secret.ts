/** One generated signing secret per owner, for webhooks that declare none. Stored encrypted, see lib/secrets. */
import { randomBytes } from 'node:crypto'
import type { Kysely } from 'kysely'
import { createAsyncCache } from '../../lib/cache/async-cache.js'
import { noActor, writeAudit } from '../../lib/database/audit.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { lockTenant } from '../../lib/database/tenant-lock.js'
import { failure } from '../../lib/errors.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { type SecretCipher, webhookSecretPlace } from '../../lib/secrets/cipher.js'

const secretBytes = 32
const maxKept = 1000
const maxAgeMs = 60_000

export type SigningSecrets = ReturnType<typeof createSigningSecrets>

export function createSigningSecrets (
  { db, cipher, now }: { readonly db: Kysely<SystemTables>, readonly cipher: SecretCipher, readonly now: () => number }
) {
  const cache = createAsyncCache<{ readonly secret: string }, Owner>({
    max: maxKept,
    maxAgeMs,
    load: async (tenant) => ({ secret: cipher.decrypt(webhookSecretPlace(tenant), await sealedOf(tenant)) })
  })

  async function sealedOf (tenant: Owner): Promise<Buffer> {
    return await find(db, tenant) ?? await db.transaction().execute(async (transaction) => {
      if (!await lockTenant(transaction, tenant, 'shared')) throw failure('tenantUnknown')
      const at = new Date(now())
      const sealed = cipher.encrypt(webhookSecretPlace(tenant), `whsec_${randomBytes(secretBytes).toString('base64')}`)
      const made = await transaction.insertInto('tenantry.webhook_secrets').values({ tenant_id: tenant, secret: sealed, created_at: at })
        .onConflict((conflict) => conflict.doNothing()).returning('tenant_id').executeTakeFirst()
      if (made !== undefined) await writeAudit(transaction, { tenant, action: 'webhook.secret', actor: noActor, at })
      // Another process may have created it just now.
      const found = made === undefined ? await find(transaction, tenant) : sealed
      if (found === undefined) throw failure('tenantUnknown')
      return found
    })
  }

  return {
    /** `whsec_<base64>`; created if the owner has none. Throws `tenantUnknown`, and SecretUnreadable without the master key. */
    async of (tenant: Owner): Promise<string> {
      const { secret } = await cache.get(tenant)
      return secret
    },
    forget: cache.invalidate,
    clear: cache.clear
  }
}

async function find (db: Kysely<SystemTables>, tenant: Owner): Promise<Buffer | undefined> {
  const row = await db.selectFrom('tenantry.webhook_secrets').select('secret').where('tenant_id', '=', tenant).executeTakeFirst()
  return row?.secret
}
