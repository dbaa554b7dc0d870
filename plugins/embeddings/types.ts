/**
 * The types of `app.embeddings`. The tenant is the first argument of every method, and never empty. Methods that embed texts reject with
 * `tenantUnknown` if the tenant does not exist, or is deleted meanwhile.
 */
import type { Actor } from '../../lib/database/audit.js'
import type { TenantLife } from '../../lib/identity/tenant-ref.js'
import type { Embedded, ModelUsage, ModelUser } from '../../lib/models/types.js'
import type { ChunkMatch, DocumentPage, FilterValue, StoredDocument } from '../../lib/vectors/types.js'

export const contentTypes = ['text/plain', 'text/markdown', 'text/html', 'application/pdf'] as const
export type DocumentType = typeof contentTypes[number]

export interface NewDocument {
  /** 1 to 200 characters. Default: a random UUID. */
  readonly id?: string | undefined
  readonly contentType: DocumentType
  /** The text. Set either this or `fileId`. */
  readonly document?: string | undefined
  /** The id of a file of the tenant. A PDF is always a file. */
  readonly fileId?: string | undefined
  readonly metadata?: Readonly<Record<string, unknown>> | undefined
}

export const searchModes = ['vector', 'text', 'hybrid'] as const
export type SearchMode = typeof searchModes[number]

export interface Search {
  readonly query: string
  /** 1 to 100. Default: 10. */
  readonly limit?: number | undefined
  /** 0 to 1: the minimum cosine similarity, or for `text` the minimum rank. Default: none. */
  readonly threshold?: number | undefined
  /** Members that a document's metadata must have, with equal values. */
  readonly filter?: Readonly<Record<string, FilterValue>> | undefined
  /** Default: `vector`. */
  readonly mode?: SearchMode | undefined
}

/** The caller. */
export interface EmbeddingCall {
  /** As the caller found the tenant: a later tenant with its id gets `tenantUnknown`. Default: the present tenant. */
  readonly life?: TenantLife | undefined
  readonly user: ModelUser | null
  readonly signal: AbortSignal
}

export interface DocumentCall extends EmbeddingCall {
  readonly actor: Actor
}

export interface PutDocument {
  readonly id: string
  readonly isNew: boolean
  readonly chunks: number
  readonly usage: ModelUsage
}

export interface SearchResult {
  readonly results: readonly ChunkMatch[]
  readonly usage: ModelUsage
}

export interface Embeddings {
  /** `pgvector`, or `qdrant:<collection>`. */
  readonly store: string
  embed(tenant: string, texts: readonly string[], call: EmbeddingCall): Promise<Embedded>
  /**
   * Splits and embeds a document, and replaces a document with the same id. Rejects with `documentUnreadable`, `documentsBusy`,
   * `notFound` for a file, `validationFailed` and the errors of `Models.embed`. The previous document then stays.
   */
  put(tenant: string, document: NewDocument, call: DocumentCall): Promise<PutDocument>
  /** Returns false if the tenant has no such document. */
  remove(tenant: string, id: string, actor: Actor): Promise<boolean>
  /** Newest first, those of one time by id. `total`: of all pages. */
  list(tenant: string, page: DocumentPage): Promise<{ data: StoredDocument[], total: number }>
  /** The texts of the chunks of a document, in order; null if the tenant has no such document. */
  read(tenant: string, id: string): Promise<readonly string[] | null>
  search(tenant: string, search: Search, call: EmbeddingCall): Promise<SearchResult>
  /** Resolves if the vector store can be reached. */
  check(): Promise<void>
}

declare module 'fastify' {
  interface FastifyInstance {
    embeddings: Embeddings
  }
}
