/** A compiled query of a route: plain frozen data, and the functions that bind it to a request. */
import type { TableUse } from '../cache/store.js'
import type { Statement } from '../database/engine.js'
import type { ResultKind } from '../expressions/result.js'
import type { JsonSchema, Reference, Scope } from '../expressions/types.js'
import type { DocumentOperation } from '../firestore/types.js'
import type { Field } from '../schema/route.js'

export interface BoundQuery {
  readonly statement: Statement
  readonly values: readonly unknown[]
  /** Default: that of the query. */
  readonly resultKind?: ResultKind
  /** Turns the statement's text into the result. Default: unchanged. */
  readonly finish?: (text: string) => string
  /** Turns the statement's error into the caller's. Default: unchanged. */
  readonly failure?: (error: unknown) => unknown
}

/** The reason why a statement returned no row: the record does not exist, or (upsert) belongs to another tenant. */
export type Missing = 'notFound' | 'conflict'

/** An operation on documents in Firestore, bound to one request. */
export interface BoundOperation {
  readonly operation: DocumentOperation
  readonly resultKind: ResultKind
  /** Turns the store's text into the result. Default: unchanged. */
  readonly finish?: (text: string) => string
}

/** A query of a route, independent of its store. */
interface QueryParts {
  /** Its member in the response of several queries, and its name in `{{results.<key>}}`: the alias, or else the table or collection. */
  readonly key: string
  readonly table: string
  readonly write: boolean
  /** The query or one of its embeds reads or writes a tenant-scoped table. */
  readonly tenantScoped: boolean
  /** The tables that its records are read from, including embedded ones and those behind views. */
  readonly reads: readonly TableUse[]
  /** The tables that it writes, and those that the database changes after it (`on delete cascade`). */
  readonly writes: readonly TableUse[]
  /** The error of a route if the statement returns no row. */
  readonly missing: Missing
  /** 201 for creating operations, else 200. */
  readonly status: 200 | 201
  /** The form of the result for an object as input; for an array as input, an insert returns `records`. */
  readonly resultKind: ResultKind
  /** The result is a record of one row, and depends on no other row. */
  readonly ofOneRow: boolean
  readonly references: readonly Reference[]
  /** The source of each column of a written record: column to JSON Pointer, such as `/body/title`. */
  readonly inputPointers: ReadonlyMap<string, string>
  /** The columns of each reference that the statement checks itself, with an error that names none of them. Default: none. */
  readonly checkedColumns?: readonly (readonly string[])[]
  /** The JSON Schema of one record of this query, for `/doc`. */
  readonly record: JsonSchema
  /** The JSON Schema of the part of the body that this query writes, for `/doc`; null if it writes none. */
  readonly input: JsonSchema | null
  /** An array as input is accepted too, and the result is then `records`. */
  readonly bulk: boolean
  /** Members of its records that only callers with full access have: the names in `excludeFields`, and other names of their columns. */
  readonly excluded: ReadonlySet<string>
  /** The single column of its table's key, and the member of its records with it; null without such a column. */
  readonly rowKey: { readonly column: string, readonly member: string } | null
  /** The query calls a SQL function, which can reject the call with 422. Default: false. */
  readonly callsFunction?: true
  /** Fields that it reads from the query string of its own route, besides those of templates. */
  readonly parameters: Readonly<Record<string, Field>>
  /** Members of its records whose values a cursor contains. */
  readonly cursorMembers: readonly string[]
  /** Every name that `excludeFields` accepts here; null for documents, which may have any field. */
  readonly fields: ReadonlySet<string> | null
}

/** A query of a route, compiled to SQL. */
export interface CompiledQuery extends QueryParts {
  readonly store: 'sql'
  /** Selects the SQL text for the request and binds its values; throws `tenantRequired`, `validationFailed` and `forbidden`. */
  readonly bind: (scope: Scope) => BoundQuery
}

/** A query of a route on documents in Firestore. */
export interface FirestoreQuery extends QueryParts {
  readonly store: 'firestore'
  /** Throws `validationFailed`. */
  readonly bind: (scope: Scope) => BoundOperation
}

export type RouteQuery = CompiledQuery | FirestoreQuery
