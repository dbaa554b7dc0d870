/** The scope of a request, and the compiled values that read it: plain frozen data with functions. */
import type { TenantId, TenantLife } from '../identity/tenant-ref.js'
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

/** The tenant of a request. Templates see only its id and `config`. */
export interface ScopeTenant {
  readonly id: TenantId
  readonly life: TenantLife
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
  /** The values of `uuid()`. Default: random ones. */
  readonly newId?: () => string
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
