/** The stored parts of a workflow and of the request that starts it, and how they are read again. */
import { failure } from '../../lib/errors.js'
import type { Claims, Scope, ScopeTenant } from '../../lib/expressions/types.js'
import { parseJson } from '../../lib/json/parse.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import type { TraceContext } from '../../lib/log/trace-context.js'
import type { CompiledWorkflow, WorkflowDefinition } from '../../lib/workflows/types.js'
import type { SecretValues } from '../secrets/service.js'
import type { StoredCaller } from './run-caller.js'

const maxScopeBytes = 2_097_152 // of JSON

/** A workflow as its document contains it. */
export interface StoredDefinition {
  readonly origin: CompiledWorkflow['origin']
  readonly definition: WorkflowDefinition
}

interface StoredScope {
  readonly body?: unknown
  readonly params?: Readonly<Record<string, unknown>>
  readonly query?: Readonly<Record<string, unknown>>
  readonly headers?: Scope['headers']
  readonly auth?: Claims | null
  readonly files?: Scope['files']
  readonly input?: unknown
  readonly payload?: unknown
  readonly fullAccess: boolean
  readonly trace?: TraceContext | null
  readonly depth?: number
  readonly caller?: StoredCaller
}

/** A workflow may be started a thousand times a second. */
const definitions = new WeakMap<CompiledWorkflow, string>()

export function definitionText (workflow: CompiledWorkflow): string {
  const known = definitions.get(workflow)
  if (known !== undefined) return known
  const stored: StoredDefinition = { origin: workflow.origin, definition: workflow.definition }
  const text = stringifyJson(stored)
  definitions.set(workflow, text)
  return text
}

export function readDefinition (text: string): StoredDefinition {
  return Object(parseJson(text))
}

/**
 * The values that the workflow reads, as JSON. They contain no secrets and no headers with credentials, which the compiler refuses.
 * Throws `bodyTooLarge` beyond 2 MiB.
 */
export function scopeText ({ sources }: CompiledWorkflow, scope: Scope, caller?: StoredCaller): string {
  const stored: StoredScope = {
    fullAccess: scope.fullAccess,
    ...sources.body && { body: scope.body },
    ...sources.params && { params: scope.params },
    ...sources.query && { query: scope.query },
    ...sources.headers.length > 0 && { headers: pick(scope.headers, sources.headers) },
    ...sources.auth && { auth: scope.auth },
    ...sources.files && { files: scope.files },
    ...sources.input && { input: scope.input },
    ...sources.payload && { payload: scope.payload },
    ...scope.trace && { trace: scope.trace },
    ...scope.depth && { depth: scope.depth },
    ...caller !== undefined && { caller }
  }
  const text = stringifyJson(stored)
  const bytes = Buffer.byteLength(text)
  if (bytes > maxScopeBytes) {
    throw failure('bodyTooLarge', {
      message: `The input and context of a workflow can have at most ${maxScopeBytes} bytes as JSON: this one has ${bytes}`
    })
  }
  return text
}

/** The scope of a run: the stored values, with the current tenant and its current secrets. */
export function readScope (
  { scope: text, user }: { readonly scope: string, readonly user: string | null },
  tenant: ScopeTenant | null,
  secrets: SecretValues
): Scope {
  // Steps need the caller who started the run even if no template reads the claims.
  const {
    body = null,
    params = {},
    query = {},
    headers = {},
    auth = user === null ? null : { sub: user },
    files,
    input,
    payload,
    fullAccess,
    trace = null,
    depth = 0
  }: StoredScope = Object(parseJson(text))
  return {
    body,
    params,
    query,
    headers,
    auth,
    tenant,
    secrets,
    results: {},
    fullAccess,
    trace,
    depth,
    ...files !== undefined && { files },
    ...input !== undefined && { input },
    ...payload !== undefined && { payload }
  }
}

/** The number of webhooks that led to the run. */
export function readDepth ({ scope }: { readonly scope: string }): number {
  const { depth = 0 }: StoredScope = Object(parseJson(scope))
  return depth
}

/** The caller of a run; undefined for a run without a request. */
export function readCaller ({ scope }: { readonly scope: string }): StoredCaller | undefined {
  const { caller }: StoredScope = Object(parseJson(scope))
  return caller
}

function pick (headers: Scope['headers'], names: readonly string[]): Scope['headers'] {
  return Object.fromEntries(names.flatMap((name) => headers[name] === undefined ? [] : [[name, headers[name]]]))
}
