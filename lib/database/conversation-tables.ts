/** The tables of conversations in the `tenantry` schema, as kysely sees them: a part of the system tables. */
import type { ColumnType } from 'kysely'

export interface ConversationsTable {
  tenant_id: string
  id: string
  /** The `sub` of the user that the conversation belongs to. */
  user_id: string
  /** The user belongs to the platform, not to the tenant. */
  platform: boolean
  title: string
  last_position: number
  messages: number
  /** The size of the kept messages, in bytes. */
  bytes: number
  created_at: ColumnType<Date, Date, never>
  updated_at: ColumnType<Date, Date, Date>
}

export interface ConversationMessagesTable {
  tenant_id: string
  conversation_id: string
  position: number
  role: 'user' | 'assistant'
  content: string
  /** The chunks of documents that the response could use; null without any. */
  citations: ColumnType<ReadonlyArray<{ id: string, chunk: number, score: number }> | null, string | null, never>
  /** The size of the content, in bytes. */
  bytes: number
  created_at: ColumnType<Date, Date, never>
}
