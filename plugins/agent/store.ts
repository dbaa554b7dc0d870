/** The SQL of conversations. */
import { type Kysely, type RawBuilder, sql, type SqlBool } from 'kysely'
import { type IdempotencyClaim, markClaim } from '../../lib/database/idempotency-claim.js'
import type { SystemTables, SystemTransaction } from '../../lib/database/system-tables.js'
import { lockTenant } from '../../lib/database/tenant-lock.js'
import { failure } from '../../lib/errors.js'
import type { Page } from '../../lib/http/page.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { storable } from '../../lib/json/storable.js'
import type { Conversation } from './schemas.js'
import type { ConversationMessage, ConversationOwner } from './types.js'

const conversations = 'tenantry.conversations'
const messages = 'tenantry.conversation_messages'
const maxMessages = 500 // of a conversation; the oldest are removed first
const maxBytes = 1_048_576 // of a conversation; the oldest messages are removed first
const maxContent = 200_000 // characters of a message
const maxConversations = 500 // of a user; the least recently used are removed first

const columns = ['id', 'title', 'messages', 'created_at as createdAt', 'updated_at as updatedAt'] as const

/** An addition to a conversation. */
export interface Turn {
  readonly id: string
  /** The title of a new conversation; null for an existing one. */
  readonly title: string | null
  readonly messages: ReadonlyArray<Omit<ConversationMessage, 'createdAt'>>
  readonly at: Date
}

/** @param dbFor runs the statements of a tenant */
export function createConversationStore (dbFor: (tenant: Owner) => Kysely<SystemTables>) {
  const ofOwner = (owner: ConversationOwner) => dbFor(owner.tenant).selectFrom(conversations).where(isOwnedBy(owner))

  return {
    /** A page of the user's conversations, last used first, and their total number. */
    async list (owner: ConversationOwner, { limit, offset }: Page): Promise<{ data: Conversation[], total: number }> {
      const data = await ofOwner(owner).select(columns).orderBy('updated_at', 'desc').orderBy('id').limit(limit).offset(offset).execute()
      const { total } = await ofOwner(owner).select(sql<number>`count(*)::integer`.as('total')).executeTakeFirstOrThrow()
      return { data, total }
    },

    /** null for a conversation of another user or tenant. */
    async find (owner: ConversationOwner, id: string): Promise<Conversation | null> {
      return await ofOwner(owner).select(columns).where('id', '=', id).executeTakeFirst() ?? null
    },

    /** The stored messages, oldest first. */
    async messages (tenant: Owner, id: string): Promise<ConversationMessage[]> {
      const rows = await dbFor(tenant).selectFrom(messages).select(['role', 'content', 'citations', 'created_at as createdAt'])
        .where('tenant_id', '=', tenant).where('conversation_id', '=', id).orderBy('position', 'desc').limit(maxMessages).execute()
      return rows.reverse().map((message) => ({ ...message, citations: message.citations ?? [] }))
    },

    /** Adds the messages. Returns false if the conversation or its user was deleted meanwhile. Rejects with `tenantUnknown`. */
    async add (owner: ConversationOwner, turn: Turn, claim?: IdempotencyClaim): Promise<boolean> {
      return await dbFor(owner.tenant).transaction().execute(async (writer) => {
        if (!await lockTenant(writer, owner.tenant, 'shared', owner.life)) throw failure('tenantUnknown')
        if (!await lockUser(writer, owner)) return false
        if (claim !== undefined) await markClaim<SystemTables>(writer, claim)
        if (turn.title !== null) {
          await insert(writer, owner, turn, turn.title)
          await removeOld(writer, owner, turn.id)
        }
        return await append(writer, owner, turn)
      })
    },

    /** Deletes the conversation with its messages. Returns false if the user has no such conversation. */
    async remove (writer: SystemTransaction, owner: ConversationOwner, id: string): Promise<boolean> {
      const row = await writer.deleteFrom(conversations).where(isOwnedBy(owner)).where('id', '=', id).returning('id').executeTakeFirst()
      return row !== undefined
    }
  }
}

/** Keeps the user of a login until the transaction ends; false if it was deleted. Its deletion removes the conversations. */
async function lockUser (writer: SystemTransaction, { tenant, user, ofLogin }: ConversationOwner): Promise<boolean> {
  return !ofLogin || await writer.selectFrom('tenantry.users').select('id').where('tenant_id', '=', tenant).where('id', '=', user)
    .forKeyShare().executeTakeFirst() !== undefined
}

async function insert (
  writer: SystemTransaction,
  { tenant, user, platform }: ConversationOwner,
  { id, at }: Turn,
  title: string
): Promise<void> {
  await writer.insertInto(conversations).values({
    tenant_id: tenant,
    id,
    user_id: user,
    platform,
    title: storable(title),
    last_position: 0,
    messages: 0,
    bytes: 0,
    created_at: at,
    updated_at: at
  }).execute()
}

/** The new conversation stays, even if the clock was set back. */
async function removeOld (writer: SystemTransaction, owner: ConversationOwner, added: string): Promise<void> {
  const old = writer.selectFrom(conversations).select('id').where(isOwnedBy(owner)).where('id', '<>', added)
    .orderBy('updated_at', 'desc').orderBy('id').offset(maxConversations - 1)
  await writer.deleteFrom(conversations).where('tenant_id', '=', owner.tenant).where('id', 'in', old).execute()
}

async function append (writer: SystemTransaction, { tenant }: ConversationOwner, { id, messages: added, at }: Turn): Promise<boolean> {
  const row = await writer.selectFrom(conversations).select(['last_position', 'messages', 'bytes'])
    .where('tenant_id', '=', tenant).where('id', '=', id).forUpdate().executeTakeFirst()
  if (row === undefined) return false
  const rows = added.map(({ role, content, citations }, index) => {
    const kept = storable(content.slice(0, maxContent))
    return {
      tenant_id: tenant,
      conversation_id: id,
      position: row.last_position + index + 1,
      role,
      content: kept,
      citations: citations.length === 0 ? null : JSON.stringify(citations),
      bytes: Buffer.byteLength(kept),
      created_at: at
    }
  })
  await writer.insertInto(messages).values(rows).execute()
  const all = { messages: row.messages + rows.length, bytes: row.bytes + rows.reduce((sum, { bytes }) => sum + bytes, 0) }
  const { messages: count, bytes } = all.messages > maxMessages || all.bytes > maxBytes
    ? await removeFirst(writer, tenant, id, rows.length)
    : all
  await writer.updateTable(conversations).set({ last_position: row.last_position + rows.length, messages: count, bytes, updated_at: at })
    .where('tenant_id', '=', tenant).where('id', '=', id).execute()
  return true
}

/** Removes the oldest messages until the rest is within the limits. The `newest` messages always stay. */
async function removeFirst (writer: SystemTransaction, tenant: Owner, id: string, newest: number) {
  const rows = await writer.selectFrom(messages).select(['position', 'bytes']).where('tenant_id', '=', tenant)
    .where('conversation_id', '=', id).orderBy('position', 'desc').execute()
  let count = 0
  let bytes = 0
  for (const row of rows) {
    if (count >= newest && (count === maxMessages || bytes + row.bytes > maxBytes)) break
    count++
    bytes += row.bytes
  }
  const last = rows[count]
  if (last !== undefined) {
    await writer.deleteFrom(messages).where('tenant_id', '=', tenant).where('conversation_id', '=', id)
      .where('position', '<=', last.position).execute()
  }
  return { messages: count, bytes }
}

function isOwnedBy ({ tenant, user, platform }: ConversationOwner): RawBuilder<SqlBool> {
  return sql`tenant_id = ${tenant} and user_id = ${user} and platform = ${platform}`
}
