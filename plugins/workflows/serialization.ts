/** The stored parts of a workflow and of the request that starts it, and how they are read again. */
import { oncePerObject } from '../../lib/cache/weak-memo.js'
import { failure } from '../../lib/errors.js'
import { noScope } from '../../lib/expressions/no-scope.js'
import type { Scope, ScopeTenant } from '../../lib/expressions/types.js'
import { parseJson } from '../../lib/json/parse.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import type { CompiledWorkflow } from '../../lib/workflows/types.js'
import type { SecretValues } from '../secrets/service.js'
import type { StoredCaller } from './run-caller.js'
import type { TakenRun } from './store.js'

const maxScopeBytes = 2_097_152 // of JSON

/** A workflow as its document contains it. */
type StoredDefinition = Pick<CompiledWorkflow, 'origin' | 'definition'>

type StoredScope =
  & Pick<Scope, 'fullAccess'>
  & Partial<Pick<Scope, 'body' | 'params' | 'query' | 'headers' | 'auth' | 'files' | 'input' | 'payload' | 'trace' | 'depth'>>
  & { readonly caller?: StoredCaller }

/** A workflow may be started a thousand times a second. */
export const definitionText = oncePerObject(
  ({ origin, definition }: CompiledWorkflow) => stringifyJson({ origin, definition } satisfies StoredDefinition)
)

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

/** The scope of a run: the stored values, with the current tenant and its current secrets. Without a request there is no caller. */
export function readScope (
  { scope: text, user }: Pick<TakenRun, 'scope' | 'user'>,
  tenant: ScopeTenant | null,
  secrets: SecretValues
): { readonly scope: Scope, readonly caller: StoredCaller | undefined } {
  const { caller, ...stored }: StoredScope = Object(parseJson(text))
  // Steps need the caller who started the run even if no template reads the claims.
  const auth = user === null ? null : { sub: user }
  return { caller, scope: { ...noScope, body: null, results: {}, auth, trace: null, depth: 0, ...stored, tenant, secrets } }
}

/** The number of webhooks that led to the run. */
export function readDepth ({ scope }: Pick<TakenRun, 'scope'>): number {
  const { depth = 0 }: StoredScope = Object(parseJson(scope))
  return depth
}

function pick (headers: Scope['headers'], names: readonly string[]): Scope['headers'] {
  return Object.fromEntries(names.flatMap((name) => headers[name] === undefined ? [] : [[name, headers[name]]]))
}
