/**
 * A store of chunks of documents with their vectors. The tenant is part of every query, and no input can change it. The text is
 * always in the SQL database, which also holds the current version of each document. The vectors are in an index behind a small
 * interface: pgvector, or Qdrant.
 */
import type { SystemTransaction } from '../database/system-tables.js'
import type { Page } from '../http/page.js'
import type { Owner, TenantLife } from '../identity/tenant-ref.js'
import type { Exact } from '../json/exact-number.js'
import type { Agent } from '../schema/agent.js'

/** The document's `agent.vectorStore`. */
export type VectorStoreSection = NonNullable<Agent['vectorStore']>

export interface Chunk {
  /** Position in its document, from 0. */
  readonly position: number
  readonly content: string
  /** Finite numbers, at least one of them not 0. */
  readonly embedding: readonly number[]
}

export interface DocumentInput {
  readonly id: string
  readonly contentType: string
  readonly metadata: Readonly<Record<string, unknown>>
  readonly chunks: readonly Chunk[]
}

/** The place of a document in the list of its tenant. */
export interface DocumentPlace {
  readonly createdAt: Date
  readonly id: string
}

export interface DocumentPage extends Page {
  /** The page begins after this place, whether or not the document still exists. Documents that come and go move no others. */
  readonly after?: DocumentPlace | undefined
}

export interface StoredDocument extends Omit<DocumentInput, 'chunks'> {
  readonly chunks: number
  readonly createdAt: Date
}

/** The model and the dimensions of vectors: documents of different spaces cannot be compared. */
export interface VectorSpace {
  readonly model: string
  readonly dimensions: number
}

export type FilterValue = string | number | Exact | boolean | null

export interface VectorQuery {
  readonly limit: number
  /** The minimum score, 0 to 1. Default: none. */
  readonly threshold?: number | undefined
  /** Members that the metadata of a document must equal. */
  readonly filter: Readonly<Record<string, FilterValue>>
}

export interface ChunkMatch {
  readonly id: string
  /** The position of the chunk. */
  readonly chunk: number
  readonly content: string
  /** Cosine similarity for `byVector`; a rank of PostgreSQL's full text, 0 to 1, for `byText`. */
  readonly score: number
  readonly metadata: Readonly<Record<string, unknown>>
}

/** Writes in the transaction that changes the documents, for example an entry of the audit log. */
export type AlsoWrite = (transaction: SystemTransaction, isNew: boolean) => Promise<void>

export interface PutOptions {
  readonly also?: AlsoWrite | undefined
  /** Replaces this version only. */
  readonly version?: string | undefined
  /** The life of the tenant in which the work began. Rejects with `tenantUnknown` if a later tenant has its id. Default: any. */
  readonly life?: TenantLife | undefined
}

/** A document with vectors of another model, or in another store. */
export interface StaleDocument extends VectorSpace {
  readonly tenant: Owner
  readonly id: string
  readonly store: string
}

export interface DocumentText extends Omit<DocumentInput, 'chunks'> {
  readonly version: string
  readonly contents: readonly string[]
}

export interface VectorStore {
  /** `pgvector`, or `qdrant:<collection>`. */
  readonly name: string
  /** Replaces all chunks of the document at once. `changed`: the document no longer has the `version`. Rejects with `tenantUnknown`. */
  put(tenant: Owner, document: DocumentInput, options?: PutOptions): Promise<'new' | 'replaced' | 'changed'>
  /** false if the tenant has no such document. */
  remove(tenant: Owner, id: string, also?: AlsoWrite): Promise<boolean>
  /** The newest documents first, those of one time by id. `total`: of all pages. */
  list(tenant: Owner, page: DocumentPage): Promise<{ data: StoredDocument[], total: number }>
  read(tenant: Owner, id: string): Promise<DocumentText | null>
  byVector(tenant: Owner, embedding: readonly number[], query: VectorQuery): Promise<ChunkMatch[]>
  /** The text has the syntax of `websearch_to_tsquery`. */
  byText(tenant: Owner, text: string, query: VectorQuery): Promise<ChunkMatch[]>
  /** Documents of all tenants that are not in this space and store. */
  stale(limit: number): Promise<StaleDocument[]>
  /** Deletes the remaining vectors of a tenant after its documents. */
  removeAll(tenant: Owner): Promise<void>
  /** Deletes vectors without a document, which interrupted writes have left. */
  sweep(): Promise<void>
  /** Resolves if the store is reachable. */
  check(): Promise<void>
}

/** A document whose vectors are written. */
export interface VectorDocument extends DocumentInput {
  readonly version: string
}

/** The score is the cosine similarity. */
export interface Nearest extends Pick<ChunkMatch, 'id' | 'chunk' | 'score'> {
  /** The version of the vector's document; undefined if the index has only vectors of current versions. */
  readonly version?: string
}

/** The vectors of chunks, and the search for the nearest ones. */
export interface VectorIndex {
  readonly name: string
  /** The vectors are outside the SQL database: they are written before their version becomes current, and deleted after it is outdated. */
  readonly external: boolean
  /** For an external index, called before the transaction; otherwise called within it, after the text is written. */
  write(tenant: Owner, document: VectorDocument, transaction: SystemTransaction | null): Promise<void>
  /** For an external index: deletes the vectors of a version. */
  discard(tenant: Owner, id: string, version: string): Promise<void>
  /** Sorted by similarity. An external index may return outdated versions. */
  nearest(tenant: Owner, embedding: readonly number[], query: VectorQuery): Promise<Nearest[]>
  removeAll(tenant: Owner): Promise<void>
  check(): Promise<void>
}
