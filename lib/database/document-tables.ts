/** The tables of documents for search in the `tenantry` schema, as kysely sees them: a part of the system tables. */
import type { ColumnType } from 'kysely'

export interface AgentDocumentsTable {
  tenant_id: string
  id: string
  /** Of the content: another one with each replacement. */
  version: string
  content_type: string
  metadata: ColumnType<Record<string, unknown>, string, string>
  /** How many it has. */
  chunks: number
  /** The model that embedded the chunks, the numbers of its vectors, and where they are kept: `pgvector`, or `qdrant:<collection>`. */
  model: string
  dimensions: number
  store: string
  created_at: ColumnType<Date, Date, never>
}

export interface AgentChunksTable {
  tenant_id: string
  document_id: string
  position: number
  content: string
  /** Kept by the database: the words of the content, and one lexeme that stands for the tenant. */
  terms: ColumnType<string, never, never>
}

/** Versions whose vectors an external store may have although no document has them: they are to be deleted there. */
export interface AgentStaleVectorsTable {
  tenant_id: string
  document_id: string
  version: string
  /** Until then an upload may be under way that makes it the version of the document. */
  due_at: ColumnType<Date, Date, Date>
}

export interface AgentBatchesTable {
  tenant_id: string
  id: string
  status: 'queued' | 'running' | 'completed'
  total: number
  /** Who sent it, as the audit log shows it. */
  actor: ColumnType<Record<string, unknown>, string, never>
  created_at: ColumnType<Date, Date, never>
  finished_at: ColumnType<Date | null, null, Date>
}

export interface AgentBatchDocumentsTable {
  tenant_id: string
  batch_id: string
  /** In the request. */
  position: number
  /** The document as it was sent; null when it is done. */
  input: ColumnType<Record<string, unknown> | null, string, null>
  status: 'waiting' | 'done' | 'failed'
  /** Why it failed. */
  error: string | null
}

/** Numbers of a vector where the configuration does not say. */
export const defaultDimensions = 1536

/** The vectors of pgvector: a table for each number of dimensions, which a column has in its type. */
export interface VectorTable {
  /** 1 to 2,000, as many as an index of pgvector takes. */
  readonly dimensions: number
}

/** With its schema. */
export function vectorTableName (dimensions: number): string {
  return `tenantry.agent_vectors_${dimensions}`
}
