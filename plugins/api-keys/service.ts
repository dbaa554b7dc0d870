/** The handlers of the endpoints of API keys. */
import { randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import type { UseCounter } from '../../lib/concurrency/use-counter.js'
import { type Actor, type AuditEntry, writeAudit } from '../../lib/database/audit.js'
import { lockTenant } from '../../lib/database/tenant-lock.js'
import { failure } from '../../lib/errors.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { tokenHash } from '../../lib/identity/token-hash.js'
import { dayMs } from '../../lib/time/spans.js'
import type { Author } from '../auth/actor.js'
import { requireGrant } from '../auth/permissions.js'
import { removeInvitationsFrom } from '../mail/links.js'
import { requirePresent } from '../sessions/present.js'
import { type ApiKeyStore, createKeyText, deleteKeysOf, endOfCaller, type KeyRow, subOfKey } from './store.js'

export const maxKeys = 100 // of one tenant
export const maxGraceDays = 90

export interface NewApiKey {
  readonly name: string
  readonly scopes: readonly string[]
  readonly expiresAt: Date | null
}

export type ApiKeys = ReturnType<typeof createApiKeys>

export function createApiKeys ({ auth, engine, events }: FastifyInstance, store: ApiKeyStore, uses: UseCounter, now: () => number) {
  /** The key without its secret. */
  function shown (
    tenant: Owner,
    { id, name, scopes, created_at: createdAt, created_by: createdBy, expires_at: expiresAt, last_used_at: written }: KeyRow
  ) {
    const unwritten = uses.lastUse(tenant, id)
    const lastUsedAt = unwritten !== undefined && unwritten > (written?.getTime() ?? 0) ? new Date(unwritten) : written
    return { id, name, scopes, createdAt, createdBy, expiresAt, lastUsedAt }
  }

  return {
    async list (tenant: Owner) {
      return (await store.read(tenant, engine.kyselyFor(tenant))).map((row) => shown(tenant, row))
    },

    /**
     * The key, and its text, which is shown only once. A key that an API key creates expires with it at the latest. `grantExceeds` for
     * scopes that the caller does not hold, `conflict` beyond 100 keys, `tokenInvalid` if the caller has ended meanwhile.
     */
    async create (tenant: Owner, { name, scopes, expiresAt: asked }: NewApiKey, { claims, held, actor }: Author) {
      requireGrant(held, scopes)
      const id = randomUUID()
      const key = createKeyText(id)
      const createdAt = new Date(now())
      const expiresAt = await events.change({ topic: 'api-keys', tenant }, async (transaction) => {
        const count = await store.lockedCount(transaction, tenant)
        if (count === null) throw failure('tenantUnknown')
        await requirePresent(transaction, claims, createdAt, auth.providers)
        if (count >= maxKeys) throw failure('conflict', { message: `A tenant has at most ${maxKeys} API keys: revoke an unused key first` })
        const end = await endOfCaller(transaction, tenant, claims)
        const expires = end === null || (asked !== null && asked < end) ? asked : end
        await store.insert(transaction, tenant, {
          id,
          name,
          hash: tokenHash(key),
          scopes: [...scopes],
          created_by: claims.sub,
          created_at: createdAt,
          expires_at: expires
        })
        await writeAudit(transaction, {
          tenant,
          action: 'api_key.create',
          actor,
          target: id,
          details: { name, scopes, expiresAt: expires },
          at: createdAt
        })
        return expires
      })
      return { id, key, name, scopes, createdAt, createdBy: claims.sub, expiresAt, lastUsedAt: null }
    },

    /**
     * Creates a new text for the key. The previous text is valid until `oldKeyValidUntil`, at most until the key expires; older ones end at
     * once. Without a grace period the invitations of the key end too. The key then ends with the caller, who knows the text, as with its
     * creator. Throws `grantExceeds` if the caller does not hold the key's scopes or is a key that ends earlier, `notFound`, `conflict` for
     * an expired key, and `tokenInvalid` if the caller has ended meanwhile.
     */
    async rotate (tenant: Owner, given: string, gracePeriodDays: number, { claims, held, actor }: Author) {
      const time = now()
      return await events.change({ topic: 'api-keys', tenant }, async (transaction) => {
        if (!await lockTenant(transaction, tenant, 'alone')) throw failure('tenantUnknown')
        await requirePresent(transaction, claims, new Date(time), auth.providers)
        const row = await store.locked(transaction, tenant, given)
        if (row === undefined) throw failure('notFound')
        // The given id may have capital letters.
        const { id } = row
        const key = createKeyText(id)
        requireGrant(held, row.scopes)
        const expires = row.expires_at?.getTime() ?? Infinity
        if (expires <= time) throw failure('conflict', { message: 'The API key has expired: create a new one' })
        const end = await endOfCaller(transaction, tenant, claims)
        if (end !== null && expires > end.getTime()) {
          throw failure('grantExceeds', {
            message: 'The text of your API key ends earlier than the key to rotate: rotate it as a user, or with a text that is valid for as long'
          })
        }
        const until = new Date(Math.min(time + gracePeriodDays * dayMs, expires))
        await store.replaceHash(
          transaction,
          tenant,
          id,
          gracePeriodDays === 0
            ? { hash: tokenHash(key), previous_hash: null, previous_valid_until: null, rotated_by: [claims.sub] }
            : {
                hash: tokenHash(key),
                previous_hash: row.hash,
                previous_valid_until: until,
                rotated_by: [...row.rotated_by.slice(-1), claims.sub]
              }
        )
        if (gracePeriodDays === 0) await removeInvitationsFrom(transaction, tenant, [subOfKey(id)])
        await writeAudit(transaction, {
          tenant,
          action: 'api_key.rotate',
          actor,
          target: id,
          details: { gracePeriodDays },
          at: new Date(time)
        })
        return { id, key, oldKeyValidUntil: until }
      })
    },

    /** Ends the key, the keys created or rotated with it, and the invitations of all of them. `notFound`, `tenantUnknown`. */
    async delete (tenant: Owner, given: string, actor: Actor): Promise<void> {
      await events.change({ topic: 'api-keys', tenant }, async (transaction) => {
        // Alone: the key may be creating another one.
        if (!await lockTenant(transaction, tenant, 'alone')) throw failure('tenantUnknown')
        // The given id may have capital letters.
        const id = await store.delete(transaction, tenant, given)
        if (id === undefined) throw failure('notFound')
        const others = await deleteKeysOf(transaction, tenant, subOfKey(id))
        await removeInvitationsFrom(transaction, tenant, [id, ...others].map(subOfKey))
        const entry = { tenant, action: 'api_key.delete', actor, at: new Date(now()) } as const
        await writeAudit(
          transaction,
          { ...entry, target: id },
          ...others.map((other): AuditEntry => ({ ...entry, target: other, details: { key: id } }))
        )
      })
    }
  }
}
