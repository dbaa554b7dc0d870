/**
 * The results of the compiler: plain frozen data with functions in it, free of I/O and of Fastify. One compiled route can be
 * mounted on a Fastify instance and in the router of a tenant.
 */
import type { TenantId } from '../identity/tenant-ref.js'
import type { TableUse } from '../cache/store.js'
import type { Field } from '../schema/route.js'
import type { Statement } from '../database/engine.js'
import type { DocumentOperation } from '../firestore/types.js'
import type { TraceContext } from '../log/trace-context.js'

/** The verified claims of the caller. */
export interface Claims {
  readonly sub: string
  readonly role?: string
  readonly tenant_id?: string
  readonly email?: string
  readonly permissions?: readonly string[]
  readonly [claim: string]: unknown
}

/** The tenant of a request as templates see it. */
export interface ScopeTenant {
  readonly id: TenantId
  /** What `{{tenant.config.field}}` reaches: the `settings` of the tenant's document. */
  readonly config: Readonly<Record<string, unknown>>
}

/** All that templates, expressions and queries of a route may read during one request. */
export interface Scope {
  readonly body: unknown
  readonly params: Readonly<Record<string, unknown>>
  readonly query: Readonly<Record<string, unknown>>
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly auth: Claims | null
  readonly tenant: ScopeTenant | null
  /**
   * The tenant's secrets by key, as far as the route names any (`CompiledRoute.secrets`): null has expired, and what is not in
   * it does not exist.
   */
  readonly secrets: ReadonlyMap<string, string | null>
  /** Results of the route's earlier queries by alias (or table). */
  readonly results: Record<string, unknown>
  /** The caller bypasses field exclusion: role `admin`, or a tenant's own dashboard. */
  readonly fullAccess: boolean
  /** The files of the form, by part, as JSON. Default: none. */
  readonly files?: Readonly<Record<string, unknown>> | undefined
  /** What a workflow was given. */
  readonly input?: unknown
  /** The steps of a workflow that have ended, by id: their `result`, and their `error` where they failed. */
  readonly steps?: Readonly<Record<string, unknown>>
  /** The parsed body of a signed webhook. */
  readonly payload?: unknown
  /** What a document's `credentials` say for the connector whose action is called. */
  readonly credentials?: Readonly<Record<string, unknown>>
  /** Writes tell outbound webhooks of their rows. Default: false. */
  readonly events?: boolean
  /** The trace that the request belongs to: goes with its calls to other services. Default: none. */
  readonly trace?: TraceContext | null
}

/** Where a template's value comes from. */
export const templateSources = [
  'env',
  'body',
  'params',
  'query',
  'headers',
  'auth',
  'tenant',
  'secret',
  'results',
  'files',
  'steps',
  'input',
  'payload',
  'credentials',
  'now',
  'uuid'
] as const
export type TemplateSource = typeof templateSources[number]

/** What templates read of a file: `{{files.avatar.id}}`. */
export const fileMembers: readonly string[] = [
  'id',
  'bucket',
  'key',
  'name',
  'contentType',
  'size',
  'sha256',
  'public',
  'entityType',
  'entityId',
  'metadata',
  'createdBy',
  'createdAt',
  'url'
]

/** One path that a template or expression reads: `{{auth.tenant_id}}` is `{ source: 'auth', path: ['tenant_id'] }`. */
export interface Reference {
  readonly source: TemplateSource
  readonly path: readonly (string | number)[]
  /**
   * Of a secret: what stands in its place where the tenant has none, which is the template as it was written, or the platform's
   * setting of that name.
   */
  readonly fallback?: string
  /** Of a secret: it stands in the place of a setting, and need not be there. */
  readonly setting?: true
}

/** A configuration value with its templates compiled. */
export interface CompiledValue {
  /** The value never depends on the request: `evaluate` gives the same for any scope. */
  readonly constant: boolean
  readonly references: readonly Reference[]
  /** undefined where a template resolved to nothing. */
  readonly evaluate: (scope: Scope) => unknown
  /** The templates of a value that holds more than one template: each gives undefined where it resolves to nothing. */
  readonly within?: readonly ((scope: Scope) => unknown)[]
}

/** A JSON Schema, as plain data. */
export type JsonSchema = Readonly<Record<string, unknown>>

/**
 * What the one JSON text of a query is:
 * - `page`: `{"data":[...],"pagination":{"limit","offset","total"}}`, always there
 * - `cursorPage`: `{"data":[...],"pagination":{"limit","next"}}`, always there
 * - `record`: the record, or no row (the route answers 404)
 * - `records`: `{"data":[...]}`, always there
 * - `deletion`: `{"success":true}`, with `"softDeleted":true` where it was soft; no row when none matched (404)
 */
export type Answer = 'page' | 'cursorPage' | 'record' | 'records' | 'deletion'

/**
 * Where the records of an answer are, as the compiled route knows it. The shape of a value does not tell: a record may have
 * one column named `data`.
 * - `wrapped`: in the member `data`, beside which `pagination` may stand
 * - `value`: the answer of a service: each item where it is a list, and otherwise the answer itself
 * - `record`: the answer itself
 */
export type AnswerForm = 'wrapped' | 'value' | 'record'

/** A query bound to one request. */
export interface BoundQuery {
  readonly statement: Statement
  readonly values: readonly unknown[]
  readonly answer: Answer
  /** Makes the answer of the text that the statement gives. Default: they are the same. */
  readonly finish?: (text: string) => string
  /** The error for the caller of one that the statement ended with. Default: it is the same. */
  readonly failure?: (error: unknown) => unknown
}

/** Why a statement answered no row, where it could have: there is no such record, or (upsert) it is another tenant's. */
export type Missing = 'notFound' | 'conflict'

/** An operation on documents in Firestore, bound to one request. */
export interface BoundOperation {
  readonly operation: DocumentOperation
  readonly answer: Answer
  /** Makes the answer of the text that the store gives. Default: they are the same. */
  readonly finish?: (text: string) => string
}

/** A query of a route, without what it asks of its store. */
interface QueryParts {
  /** The member of a several-query answer, and the name in `{{results.<key>}}`: the alias, or else the table or collection. */
  readonly key: string
  readonly table: string
  readonly write: boolean
  /** The query or one of its embeds reads or writes a tenant-scoped table. */
  readonly tenantScoped: boolean
  /** What its records are read from, embedded tables and those behind views too. */
  readonly reads: readonly TableUse[]
  /** What it writes, with the tables that the database changes after it (`on delete cascade`). */
  readonly writes: readonly TableUse[]
  /** The error that a route answers where the statement gives no row. */
  readonly missing: Missing
  /** 201 for those that create, else 200. */
  readonly status: 200 | 201
  /** The answer for an object as input; an array as input makes an insert answer `records`. */
  readonly answer: Answer
  readonly references: readonly Reference[]
  /** Where a write takes the columns of one record from: column to JSON Pointer, such as `/body/title`. */
  readonly places: ReadonlyMap<string, string>
  /** The JSON Schema of one record of this query, for `/doc`. */
  readonly record: JsonSchema
  /** The JSON Schema of the body, for `/doc`, as far as this query writes it; null where it does not. */
  readonly input: JsonSchema | null
  /** An array as input is written too, and makes the answer `records`. */
  readonly bulk: boolean
  /** The one column of the key of its table, and the member of its records that holds it; null where there is none. */
  readonly rowKey: { readonly column: string, readonly member: string } | null
  /** It calls a function, which may refuse. Default: false. */
  readonly calls?: true
  /** Fields that it takes from the query string of a route of its own, besides those that templates read. */
  readonly parameters: Readonly<Record<string, Field>>
  /** Members of its records of which a cursor tells the value. */
  readonly cursorMembers: readonly string[]
  /** Every name that `excludeFields` can mean here; null for documents, which may have any field. */
  readonly fields: ReadonlySet<string> | null
}

/** A query of a route, compiled to SQL. */
export interface CompiledQuery extends QueryParts {
  readonly store: 'sql'
  /** Picks the SQL text that fits the request and binds its values; throws `tenantRequired`, `validationFailed` and `forbidden`. */
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

/** The parts of a request that are validated. */
export interface CompiledRequest {
  /** Schemas for `/doc`; a part without one admits anything. */
  readonly params?: JsonSchema
  readonly query?: JsonSchema
  readonly body?: JsonSchema
  /**
   * Checks the three parts, coercing those of `params` and `query` in place (bodies never); throws `validationFailed`
   * with `details: [{path, message, keyword}]`, the path a JSON Pointer such as `/body/title`.
   */
  readonly validate: (request: { params: unknown, query: unknown, body: unknown }) => void
  /** The body is a form, which `validate` does not check: checks its fields, coercing texts in place. */
  readonly validateForm?: (body: Record<string, unknown>) => void
}

/** How a route's result becomes its body. */
export type CompiledResponse =
  /** `response` was a mapping: its value, evaluated with the results in the scope, is the body; `serialize` writes it as JSON. */
  | { readonly kind: 'mapping', readonly value: CompiledValue, readonly serialize: (scope: Scope) => string }
  /** `response` was a JSON Schema: members that it does not name are left out. */
  | { readonly kind: 'schema', readonly schema: JsonSchema, readonly serialize: (result: unknown, form: AnswerForm) => string }
