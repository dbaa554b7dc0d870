/** The context that workflows are compiled in, and the values that their templates read. */
import type { ConnectorSet } from '../connectors/types.js'
import type { Catalogue } from '../database/catalogue.js'
import type { Env } from '../expressions/environment.js'
import type { TemplateContext } from '../expressions/reference.js'
import type { PartUses, SecretUses } from '../expressions/secret-uses.js'
import type { Reference, TemplateSource } from '../expressions/types.js'
import type { FileRules } from '../files/rules.js'
import type { FaultList } from '../schema/faults.js'
import type { Functions } from '../schema/function.js'
import type { Pagination } from '../schema/pagination.js'
import type { ReadSources, StepKinds } from './types.js'

/** The same context as for a route (lib/compiler/route.ts). */
export interface WorkflowContext {
  readonly faults: FaultList
  readonly catalogue: Catalogue
  readonly env: Env
  readonly pagination: Pagination
  /** Tables without `tenant_id` that a tenant's own document may read (`tenancy.sharedTables`). */
  readonly sharedTables: ReadonlySet<string>
  /** The owner of the document with the workflow or route. */
  readonly origin: 'platform' | 'tenant'
  /** It was compiled before, when its document was checked, so its bounds and rules are met. Default: false. */
  readonly checked?: boolean
  /** It is part of a saved document or of a run: it met the rules of its time, and goes on. Default: false. */
  readonly stored?: boolean
  /** The settings that `{{env.NAME}}` may name; in a tenant's document those in `tenancy.env`. Default: any. */
  readonly envNames?: ReadonlySet<string> | undefined
  /** Settings that a tenant's secret of the same name replaces (`tenancy.overridableEnv`); none in a tenant's document. Default: none. */
  readonly overridableEnv?: ReadonlySet<string>
  /** The connectors for integrations and such steps. Default: integrations are refused. */
  readonly connectors?: ConnectorSet | undefined
  /** The callable SQL functions. Default: none. */
  readonly functions?: Functions | undefined
  /** Step kinds of other plugins. Default: none. */
  readonly stepKinds?: StepKinds | undefined
  /** The server's files; null if they are off. Default: not checked, and rows have no files. */
  readonly fileRules?: FileRules | null | undefined
  /** Collects the secrets that each part of the document can read. Default: not collected. */
  readonly secretUses?: SecretUses | undefined
}

/** The scope around a workflow. */
export interface Enclosing {
  /** The sources of the route around an inline workflow; null for a named one. */
  readonly sources: ReadonlySet<TemplateSource> | null
  readonly params?: ReadonlySet<string> | undefined
  readonly files?: ReadonlySet<string> | undefined
  readonly rules?: TemplateContext['rules']
}

const namedSources: readonly TemplateSource[] = ['env', 'auth', 'tenant', 'secret', 'input', 'now', 'uuid']

/** The sources of a workflow's templates except its steps: those of the route for an inline one. */
function sourcesOf ({ sources }: Enclosing): ReadonlySet<TemplateSource> {
  if (sources === null) return new Set(namedSources)
  return new Set([...[...sources].filter((source) => source !== 'results'), 'input'])
}

export function templatesOf (context: WorkflowContext, around: Enclosing, uses: PartUses): TemplateContext {
  const { faults, env, envNames, overridableEnv, origin } = context
  return {
    faults,
    sources: sourcesOf(around),
    env,
    envNames,
    ...overridableEnv !== undefined && { overridableEnv },
    ...around.params !== undefined && { params: around.params },
    ...around.files !== undefined && { files: around.files },
    rules: around.rules,
    ofTenant: origin === 'tenant',
    uses
  }
}

/** `pages`: the query string may choose the page of a list. */
export function readSourcesOf (references: readonly Reference[]): ReadSources {
  const has = (source: TemplateSource) => references.some((reference) => reference.source === source)
  const headers = new Set(
    references.flatMap(({ source, path: [name] }) => source === 'headers' && name !== undefined ? [String(name)] : [])
  )
  return Object.freeze({
    body: has('body'),
    params: has('params'),
    query: has('query'),
    headers: Object.freeze([...headers]),
    auth: has('auth'),
    tenant: has('tenant'),
    files: has('files'),
    input: has('input'),
    payload: has('payload')
  })
}

/** The steps whose result or error is read; `{{steps}}` reads all. */
export function readStepsOf (references: readonly Reference[], ids: readonly string[]): ReadonlySet<string> {
  const read = references.filter(({ source }) => source === 'steps')
  return new Set(read.some(({ path }) => path.length === 0) ? ids : read.map(({ path: [id] }) => String(id)))
}
