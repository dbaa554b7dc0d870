/**
 * A store of chunks of documents with their vectors. The tenant is part of every query, and no input can change it.
 *
 * The text is always in the SQL database, which says which version of a document is current. The vectors are in an index
 * behind a small interface: pgvector, or Qdrant.
 */
import type { Owner } from '../identity/tenant-ref.js'
import type { Transaction } from 'kysely'
import type { SystemTables } from '../database/system-tables.js'

export interface Chunk {
  /** Position in its document, from 0. */
  readonly position: number
  readonly content: string
  /** Finite numbers that are not all 0. */
  readonly embedding: readonly number[]
}

export interface StoredDocument {
  readonly id: string
  readonly contentType: string
  readonly metadata: Readonly<Record<string, unknown>>
  /** Chunks of it. */
  readonly chunks: number
  readonly createdAt: Date
}

export interface DocumentInput {
  readonly id: string
  readonly contentType: string
  readonly metadata: Readonly<Record<string, unknown>>
  readonly chunks: readonly Chunk[]
}

/** What is embedded how: documents of another space cannot be compared. */
export interface VectorSpace {
  readonly model: string
  readonly dimensions: number
}

export type FilterValue = string | number | boolean | null

export interface VectorQuery {
  readonly limit: number
  /** The least score, 0 to 1. Default: none. */
  readonly threshold?: number | undefined
  /** Members that the metadata of a document must equal. */
  readonly filter: Readonly<Record<string, FilterValue>>
}

export interface Found {
  /** Of the document. */
  readonly id: string
  /** The position of the chunk. */
  readonly chunk: number
  readonly content: string
  /** Cosine similarity for `byVector`; a rank of PostgreSQL's full text, 0 to 1, for `byText`. */
  readonly score: number
  readonly metadata: Readonly<Record<string, unknown>>
}

/** Writes in the transaction that changes the documents: an entry of the audit log. */
export type AlsoWrite = (transaction: Transaction<SystemTables>, isNew: boolean) => Promise<void>

export interface PutOptions {
  readonly also?: AlsoWrite | undefined
  /** Replaces this version only. */
  readonly version?: string | undefined
}

/** A document that another model embedded, or whose vectors are in another store. */
export interface StaleDocument extends VectorSpace {
  readonly tenant: Owner
  readonly id: string
  readonly store: string
}

/** The text of a document. */
export interface DocumentText extends Omit<DocumentInput, 'chunks'> {
  readonly version: string
  readonly contents: readonly string[]
}

export interface VectorStore {
  /** `pgvector`, or `qdrant:<collection>`. */
  readonly name: string
  /**
   * Replaces all chunks of the document at once: `new` or `replaced`; `changed` if it does not have the `version`. Rejects
   * with `tenantUnknown`.
   */
  put(tenant: Owner, document: DocumentInput, options?: PutOptions): Promise<'new' | 'replaced' | 'changed'>
  /** false if the tenant has no such document. */
  remove(tenant: Owner, id: string, also?: AlsoWrite): Promise<boolean>
  /** The newest first. */
  list(tenant: Owner, page: { readonly limit: number, readonly offset: number }): Promise<{ data: StoredDocument[], total: number }>
  read(tenant: Owner, id: string): Promise<DocumentText | null>
  byVector(tenant: Owner, embedding: readonly number[], query: VectorQuery): Promise<Found[]>
  /** The syntax of the text is that of `websearch_to_tsquery`. */
  byText(tenant: Owner, text: string, query: VectorQuery): Promise<Found[]>
  /** Documents of all tenants that are not in this space and store. */
  stale(limit: number): Promise<StaleDocument[]>
  /** Deletes the vectors of a tenant whose documents are gone. */
  removeAll(tenant: Owner): Promise<void>
  /** Deletes vectors that no document has, which writes left that were cut off. */
  sweep(): Promise<void>
  /** Resolves if the store can be reached. */
  check(): Promise<void>
  close(): Promise<void>
}

/** A document whose vectors are written. */
export interface VectorDocument extends DocumentInput {
  readonly version: string
}

export interface Nearest {
  readonly id: string
  readonly chunk: number
  /** Cosine similarity. */
  readonly score: number
  /** Of the document that the vector belongs to; undefined where an index has vectors of current versions only. */
  readonly version?: string
}

/** The vectors of chunks, and the search for the nearest ones. */
export interface VectorIndex {
  readonly name: string
  readonly space: VectorSpace
  /** Its vectors are not in the SQL database: they are written before a version becomes current, and deleted after it was. */
  readonly external: boolean
  /** Of an external index: before the transaction. Otherwise: in it, after the text. */
  write(tenant: Owner, document: VectorDocument, transaction: Transaction<SystemTables> | null): Promise<void>
  /** Of an external index: deletes the vectors of a version. */
  discard(tenant: Owner, id: string, version: string): Promise<void>
  /** In the order of similarity. An external index may find versions that are not current. */
  nearest(tenant: Owner, embedding: readonly number[], query: VectorQuery): Promise<Nearest[]>
  removeAll(tenant: Owner): Promise<void>
  check(): Promise<void>
  close(): Promise<void>
}
