/** The tables of documents for search and of conversations in the `tenantry` schema, as kysely sees them: a part of the system tables. */
import type { ColumnType } from 'kysely'
import type { Time } from './column-types.js'

export const defaultDimensions = 1536

/** The vectors of pgvector: a table for each number of dimensions, which a column has in its type. */
export interface VectorTable {
  /** 1 to 2,000, the limit of an index of pgvector. */
  readonly dimensions: number
}

/** The table's name with its schema. */
export function vectorTableName (dimensions: number): string {
  return `tenantry.agent_vectors_${dimensions}`
}

export interface DocumentTables {
  'tenantry.agent_documents': {
    tenant_id: string
    id: string
    /** The version of the content: each replacement has a new one. */
    version: string
    content_type: string
    metadata: ColumnType<Record<string, unknown>, string, string>
    chunks: number
    /** The model that embedded the chunks, the dimensions of its vectors, and their store: `pgvector`, or `qdrant:<collection>`. */
    model: string
    dimensions: number
    store: string
    created_at: ColumnType<Date, Date, never>
  }

  'tenantry.agent_chunks': {
    tenant_id: string
    document_id: string
    position: number
    content: string
    /** Maintained by the database: the words of the content, and one lexeme for the tenant. */
    terms: ColumnType<string, never, never>
  }

  /** Versions whose vectors an external store may still have without a document: they must be deleted there. */
  'tenantry.agent_stale_vectors': {
    tenant_id: string
    document_id: string
    version: string
    /** Until then, a running upload may make it the version of the document. */
    due_at: Time
  }

  'tenantry.agent_batches': {
    tenant_id: string
    id: string
    status: 'queued' | 'running' | 'completed'
    total: number
    /** The sender, as the audit log shows it. */
    actor: ColumnType<Record<string, unknown>, string, never>
    created_at: ColumnType<Date, Date, never>
    finished_at: ColumnType<Date | null, null, Date>
  }

  'tenantry.agent_batch_documents': {
    tenant_id: string
    batch_id: string
    /** The position in the request. */
    position: number
    /** The document as sent; null once it is processed. */
    input: ColumnType<Record<string, unknown> | null, string, null>
    status: 'waiting' | 'done' | 'failed'
    error: string | null
  }

  'tenantry.conversations': {
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
    updated_at: Time
  }

  'tenantry.conversation_messages': {
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
}
