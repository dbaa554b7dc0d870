/**
 * Documents in Firestore: the requests of compiled queries, as plain data. open.ts creates the store; the other store of documents is the
 * SQL database, whose queries are SQL (lib/queries/document-sql.ts). One suite of tests runs on both.
 */
import type { Owner } from '../identity/tenant-ref.js'
import type { CollectionPlace } from './paths.js'

/** The access to Firestore. */
export interface FirestoreOptions {
  readonly projectId: string
  /** Default: the Application Default Credentials of the machine. */
  readonly credentials?: { readonly clientEmail: string, readonly privateKey: string } | undefined
  readonly databaseId?: string | undefined
  /** `host:port` */
  readonly emulatorHost?: string | undefined
  /** Collections of the platform. */
  readonly sharedCollections?: readonly string[] | undefined
  /** The default of queries without a store. Default: false. */
  readonly isDefault?: boolean | undefined
  /** The time limit of an operation in milliseconds. Default: 10,000. */
  readonly timeoutMs?: number | undefined
}

/** The names of a path into a document; null for its id. */
export type FieldNames = readonly string[] | null

export type FilterOperator = '==' | '!=' | '<' | '<=' | '>' | '>=' | 'in' | 'not-in' | 'array-contains' | 'array-contains-any'

export type DocumentFilter =
  | { readonly kind: 'field', readonly field: FieldNames, readonly operator: FilterOperator, readonly value: unknown }
  | { readonly kind: 'and' | 'or', readonly filters: readonly DocumentFilter[] }

export interface OrderKey {
  readonly field: FieldNames
  readonly descending: boolean
}

/** The fields of a result. */
export interface Shape {
  /** null: all. */
  readonly only: ReadonlySet<string> | null
  readonly without: ReadonlySet<string>
}

interface Common {
  readonly place: CollectionPlace
  readonly shape: Shape
}

/** The document of the operation; null if the request names none, which finds nothing. */
interface One extends Common {
  readonly id: string | null
}

type Fields = Readonly<Record<string, unknown>>

export interface Creation extends Common {
  readonly kind: 'create'
  /** null: each document gets a new id. */
  readonly id: string | null
  /** The id contains a new UUID, so no document has it. */
  readonly isNew?: boolean
  readonly documents: readonly Fields[]
  /** The result is a list. */
  readonly many: boolean
}

export interface PageOperation extends Common {
  readonly kind: 'query'
  /** null: nothing can match. */
  readonly filters: readonly DocumentFilter[] | null
  readonly order: readonly OrderKey[]
  readonly limit: number
  readonly offset: number
  /**
   * The page follows the document whose values of the order's keys are `after`; null at the start of the list. Its text ends with a line
   * break and the values of the next position: lib/queries/cursor.ts makes a cursor of them.
   */
  readonly cursor?: { readonly after: readonly unknown[] | null }
}

export type DocumentOperation =
  | PageOperation
  | One & { readonly kind: 'get' | 'delete' }
  | Creation
  | One & { readonly kind: 'merge' | 'update', readonly fields: Fields }
  | One & {
    readonly kind: 'set'
    readonly fields: Fields
    /** Fields of an existing document that stay unless `fields` has them. Default: none. */
    readonly kept?: readonly string[]
  }

/** The operations of one request, single or in a transaction. */
export interface DocumentSession {
  /** The JSON text of the result, or null for a missing document: as `Session.text` of the SQL database. */
  text(operation: DocumentOperation): Promise<string | null>
}

/** Throws `databaseUnavailable`, `databaseBusy`, `conflict`, `documentContention`, `indexMissing`, `invalidValue`. */
export interface DocumentStore extends DocumentSession {
  readonly isDefault: boolean
  readonly sharedCollections: ReadonlySet<string>
  /**
   * Runs the work in one transaction of the tenant: its writes are made together when it resolves, and none when it rejects. If another
   * request changed its reads, or the response of its commit was lost, it runs again, up to four times more. Its reads see its own writes
   * of documents by id.
   */
  transaction<Result>(tenant: Owner, work: (session: DocumentSession) => Promise<Result>): Promise<Result>
  /** Removes the tenant's documents, in batches, while `mayErase` before each is true. After a failure, another call continues. */
  erase(tenant: Owner, mayErase: () => Promise<boolean>): Promise<void>
  /** Resolves if Firestore is reachable. */
  check(): Promise<void>
  close(): Promise<void>
}
