/** The results of the compiler: plain frozen data with functions, for a Fastify instance and for the router of a tenant. */
import type { TableUse } from '../cache/store.js'
import type { Statement } from '../database/engine.js'
import type { DocumentOperation } from '../firestore/types.js'
import type { TenantId } from '../identity/tenant-ref.js'
import type { TraceContext } from '../log/trace-context.js'
import type { Field } from '../schema/route.js'

/** The verified claims of the caller. */
export interface Claims {
  readonly sub: string
  readonly role?: string
  readonly tenant_id?: string
  readonly email?: string
  readonly permissions?: readonly string[]
  readonly [claim: string]: unknown
}

/** The visible part of the request's tenant for templates. */
export interface ScopeTenant {
  readonly id: TenantId
  /** What `{{tenant.config.field}}` reaches: the `settings` of the tenant's document. */
  readonly config: Readonly<Record<string, unknown>>
}

/** Everything that templates, expressions and queries of a route may read during one request. */
export interface Scope {
  readonly body: unknown
  readonly params: Readonly<Record<string, unknown>>
  readonly query: Readonly<Record<string, unknown>>
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly auth: Claims | null
  readonly tenant: ScopeTenant | null
  /** The tenant's secrets that the route names (`CompiledRoute.secrets`), by key: null has expired, and a missing entry does not exist. */
  readonly secrets: ReadonlyMap<string, string | null>
  /** Results of the route's earlier queries by alias (or table). */
  readonly results: Record<string, unknown>
  /** The caller bypasses field exclusion: role `admin`, or a tenant's own dashboard. */
  readonly fullAccess: boolean
  /** The files of the form, by part, as JSON. Default: none. */
  readonly files?: Readonly<Record<string, unknown>> | undefined
  /** The input of a workflow. */
  readonly input?: unknown
  /** The ended steps of a workflow, by id: their `result`, and their `error` after a failure. */
  readonly steps?: Readonly<Record<string, unknown>>
  /** The parsed body of a signed webhook. */
  readonly payload?: unknown
  /** The document's `credentials` for the called connector. */
  readonly credentials?: Readonly<Record<string, unknown>>
  /** Writes send events of their rows to outbound webhooks. Default: false. */
  readonly events?: boolean
  /** The trace of the request, which is passed on with calls to other services. Default: none. */
  readonly trace?: TraceContext | null
  /** The number of webhooks that led to the request. Default: 0. */
  readonly depth?: number
  /** The network address of a caller without a tenant. Long work then counts for this address. Default: it counts for the server. */
  readonly ip?: string | undefined
}

/** The source of a template's value. */
export const templateSources = [
  'env', 'body', 'params', 'query', 'headers', 'auth', 'tenant', 'secret', 'results', 'files', 'steps', 'input',
  'payload', 'credentials', 'now', 'uuid'
] as const
export type TemplateSource = typeof templateSources[number]

/** The members of a file for templates: `{{files.avatar.id}}`. */
export const fileMembers: readonly string[] = [
  'id', 'bucket', 'key', 'name', 'contentType', 'size', 'sha256', 'public', 'entityType', 'entityId', 'metadata',
  'createdBy', 'createdAt', 'url'
]

/** One path that a template or expression reads: `{{auth.tenant_id}}` is `{ source: 'auth', path: ['tenant_id'] }`. */
export interface Reference {
  readonly source: TemplateSource
  readonly path: readonly (string | number)[]
  /** For a secret: the value without such a secret, which is the template as it was written, or the platform's setting of that name. */
  readonly fallback?: string
  /** For a secret: it replaces a setting, and may be missing. */
  readonly setting?: true
}

export interface CompiledValue {
  /** The value does not depend on the request: `evaluate` returns the same for any scope. */
  readonly constant: boolean
  readonly references: readonly Reference[]
  /** undefined if a template has no value. */
  readonly evaluate: (scope: Scope) => unknown
  /** The templates of a value with more than one template: each returns undefined without a value. */
  readonly within?: readonly ((scope: Scope) => unknown)[]
}

/** A JSON Schema, as plain data. */
export type JsonSchema = Readonly<Record<string, unknown>>

/**
 * The JSON text of a query's result:
 * - `page`: `{"data":[...],"pagination":{"limit","offset","total"}}`, always present
 * - `cursorPage`: `{"data":[...],"pagination":{"limit","next"}}`, always present
 * - `record`: the record, or no row (the route answers 404)
 * - `records`: `{"data":[...]}`, always present
 * - `deletion`: `{"success":true}`, with `"softDeleted":true` for a soft delete; no row if none matched (404)
 */
export type ResultKind = 'page' | 'cursorPage' | 'record' | 'records' | 'deletion'

/**
 * The place of the records in a response, as the compiled route defines it. The value's shape is ambiguous: a record may have one column
 * named `data`.
 * - `wrapped`: in the member `data`, possibly beside `pagination`
 * - `value`: a service's response: each item of a list, or the response itself
 * - `record`: the response itself
 */
export type ResultForm = 'wrapped' | 'value' | 'record'

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

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** The validated parts of a request. */
export interface CompiledRequest {
  /** The cost of testing a tenant's patterns, in steps: for each byte of the request, and once for compiling. null without patterns. */
  readonly patternCost: { readonly perByte: number, readonly ofCompiling: number } | null
  /** Schemas for `/doc`; a part without one accepts anything. */
  readonly params?: JsonSchema
  readonly query?: JsonSchema
  readonly body?: JsonSchema
  /** Checks the parts, and converts `params` and `query` in place; throws `validationFailed`. The `path` of a detail is a JSON Pointer. */
  readonly validate: (request: { params: unknown, query: unknown, body: unknown }) => void
  /** The body is a form, which `validate` does not check: checks its fields, converting texts in place. */
  readonly validateForm?: (body: Record<string, unknown>) => void
}

/** The conversion of a route's result into its body. */
export type CompiledResponse =
  /** For a mapping in `response`: its value, evaluated with the results in the scope, is the body; `serialize` writes it as JSON. */
  | { readonly kind: 'mapping', readonly value: CompiledValue, readonly serialize: (scope: Scope) => string }
  /** For a JSON Schema in `response`: undeclared members are left out. */
  | { readonly kind: 'schema', readonly schema: JsonSchema, readonly serialize: (result: unknown, form: ResultForm) => string }
