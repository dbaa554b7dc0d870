/** The paths that templates may name, and closures that read them from the scope of a request. */
import { randomUUID } from 'node:crypto'
import { type FaultList, nearest } from '../schema/faults.js'
import type { RequestRules } from '../schema/route.js'
import type { Env } from './environment.js'
import { excludedMember, type KnownResult, type StepPart, unknownMember } from './known-members.js'
import type { PartUses } from './secret-uses.js'
import { type PathNode, secretKeyForm } from './template-parser.js'
import { fileMembers, type Reference, type Scope, type TemplateSource, templateSources } from './types.js'

/** The context in which a value is compiled. */
export interface TemplateContext {
  readonly faults: FaultList
  /** The sources that are available for the value. */
  readonly sources: ReadonlySet<TemplateSource>
  /** The visible environment; a tenant's document has a reduced one. */
  readonly env: Env
  /** The rules of the request. Default: none, and every field of the body and of the query string is accepted. */
  readonly rules?: RequestRules | undefined
  /** The parameters of the route's path; without it any name is accepted. */
  readonly params?: ReadonlySet<string>
  /** The results of earlier queries by name; without it any name is accepted. */
  readonly results?: ReadonlyMap<string, KnownResult>
  /** The files of the route's form; without it any name is accepted. */
  readonly files?: ReadonlySet<string>
  /** The steps of a workflow that have ended before the value, with the known parts of their results; without it any name is accepted. */
  readonly steps?: ReadonlyMap<string, readonly StepPart[]>
  /** The settings that `{{env.NAME}}` may name; without it, any. */
  readonly envNames?: ReadonlySet<string> | undefined
  /** The settings that a secret of the same name replaces, where secrets are allowed. Default: none. */
  readonly overridableEnv?: ReadonlySet<string>
  /** The text belongs to a tenant: constructs without bounded cost, and credentials of callers, are refused. Default: false. */
  readonly ofTenant?: boolean
  /** The destination of the value, if secrets are forbidden there: "a response". */
  readonly secretsRefusedIn?: string
  /** Collects resolved secrets. Default: not collected. */
  readonly uses?: PartUses | undefined
}

/** Request headers with secrets of the caller. */
export const credentialHeaders: ReadonlySet<string> = new Set(['authorization', 'proxy-authorization', 'cookie', 'x-api-key'])

/** The keys of the used secrets, without duplicates. */
export function secretKeysOf (references: readonly Reference[]): string[] {
  return [...new Set(references.flatMap(({ source, path }) => source === 'secret' ? [String(path[0])] : []))]
}

const none: ReadonlySet<string> = new Set()

/** The keys of secrets that serve only as overrides of settings. */
export function optionalSecretsOf (references: readonly Reference[]): ReadonlySet<string> {
  const secrets = references.filter(({ source }) => source === 'secret')
  const keys = secrets.filter(({ setting }) => setting === true).map(({ path }) => String(path[0]))
  return keys.length === 0 ? none : new Set(keys.filter((key) => secrets.every(({ path, setting }) => path[0] !== key || setting === true)))
}

export type Reader = (scope: Scope) => unknown

/** The reference of a path, or undefined after a fault. `env` is checked here and read by the caller, since it is a constant. */
export function resolvePath (node: PathNode, pointer: string, context: TemplateContext): Reference | undefined {
  const { faults } = context
  const source = templateSources.find((known) => known === node.source)
  if (source === undefined) {
    const suggestion = nearest(node.source, context.sources)
    faults.add(pointer, `\`${node.text}\` is not a source of templates: ${sourceNames(context)}`, suggestion)
    return undefined
  }
  if (source === 'secret' && context.secretsRefusedIn !== undefined) {
    faults.add(pointer, `\`${node.text}\`: a secret cannot be used in ${context.secretsRefusedIn}`)
    return undefined
  }
  if (!context.sources.has(source)) {
    faults.add(pointer, `\`${node.text}\`: \`${source}\` is not available here: ${sourceNames(context)}`)
    return undefined
  }
  const isFunction = source === 'now' || source === 'uuid'
  if (isFunction !== node.call || (isFunction && node.path.length > 0)) {
    faults.add(pointer, isFunction ? `\`${node.text}\` must be written \`${source}()\`` : `\`${node.text}\`: \`${source}\` is not a function`)
    return undefined
  }
  const reference: Reference = Object.freeze({ source, path: Object.freeze(memberPath(source, node.path)) })
  if (!checkMember(reference, node.text, pointer, context)) return undefined
  if (context.uses !== undefined) collectUse(reference, context.uses)
  return reference
}

/** A secret of the tenant may replace the setting. */
export function isReplaceable (name: string, { secretsRefusedIn, sources, overridableEnv }: TemplateContext): boolean {
  return secretsRefusedIn === undefined && sources.has('secret') && overridableEnv?.has(name) === true
}

function collectUse ({ source, path: [first, second] }: Reference, uses: PartUses): void {
  if (source === 'secret') uses.add('named', String(first))
  else if (source === 'tenant' && first !== 'id') uses.readSetting(second === undefined ? null : String(second))
}

/** A closure that reads the reference: own members only, undefined for missing ones. */
export function compileReader (reference: Reference): Reader {
  const { source, path } = reference
  if (source === 'now') return now
  if (source === 'uuid') return ({ newId = randomUUID }) => newId()
  if (source === 'secret') return secretReader(reference)
  if (source === 'env') throw new Error('a setting is a constant, which has no reader')
  const root = roots[source]
  const [first, second] = path
  // Nearly every path has one or two members: those skip the loop.
  if (first === undefined) return source === 'tenant' ? wholeTenant : (scope) => root(scope) ?? undefined
  if (path.length === 1) return (scope) => member(root(scope), first)
  if (path.length === 2 && second !== undefined) return (scope) => member(member(root(scope), first), second)
  return (scope) => path.reduce<unknown>(member, root(scope))
}

/** One function each: an access by a computed name takes five times as long. */
const roots: Readonly<Record<Exclude<TemplateSource, 'now' | 'uuid' | 'secret' | 'env'>, Reader>> = {
  body: ({ body }) => body,
  params: ({ params }) => params,
  query: ({ query }) => query,
  headers: ({ headers }) => headers,
  auth: ({ auth }) => auth,
  tenant: ({ tenant }) => tenant,
  results: ({ results }) => results,
  files: ({ files }) => files,
  steps: ({ steps }) => steps,
  input: ({ input }) => input,
  payload: ({ payload }) => payload,
  credentials: ({ credentials }) => credentials
}

/** The visible part for templates: the full tenant of a request has more. */
function wholeTenant ({ tenant }: Scope): unknown {
  return tenant === null ? undefined : { id: tenant.id, config: tenant.config }
}

let lastTime = NaN
let lastText = ''

/** ISO 8601 in UTC; the text of a millisecond is made once. */
function now (): string {
  const time = Date.now()
  if (time !== lastTime) [lastTime, lastText] = [time, new Date(time).toISOString()]
  return lastText
}

/** An own member of an object, or an item of an array; other values have no members. */
export function member (value: unknown, name: string | number): unknown {
  if (!hasMembers(value) || !Object.hasOwn(value, name)) return undefined
  // An array has its own `length`, which is not part of its JSON.
  return name === 'length' && Array.isArray(value) ? undefined : value[name]
}

function hasMembers (value: unknown): value is Readonly<Record<string | number, unknown>> {
  return typeof value === 'object' && value !== null
}

/** An expired secret is null; a missing one has its fallback. */
function secretReader ({ path, fallback }: Reference): Reader {
  const key = String(path[0])
  return ({ secrets }) => {
    const value = secrets.get(key)
    return value === undefined ? fallback : value
  }
}

function checkMember (
  { source, path }: Reference,
  text: string,
  pointer: string,
  { faults, params, results, files, steps, envNames, ofTenant = false }: TemplateContext
): boolean {
  const [first, second] = path.map(String)
  const refuse = (reason: string, suggestion?: string): false => {
    faults.add(pointer, `\`${text}\`: ${reason}`, suggestion)
    return false
  }
  if (source === 'env' && path.length !== 1) return refuse('an environment setting must be written `env.NAME`')
  if (source === 'env' && envNames !== undefined && !envNames.has(String(first))) {
    // The message does not say whether it is set.
    return refuse("a tenant's document can read a setting only if the platform lists it in `tenancy.env`", nearest(String(first), envNames))
  }
  if (source === 'secret' && !secretKey.test(first ?? '')) return refuse(`a secret must be written \`secret:KEY\`, the key ${secretKeyForm}`)
  // The caller may be an administrator of the platform.
  if (source === 'headers' && ofTenant && first === undefined) {
    return refuse("a tenant's document can read only single headers: `headers.<name>`")
  }
  if (first === undefined) return true
  if (source === 'headers' && ofTenant && credentialHeaders.has(first)) {
    return refuse("a tenant's document cannot read credentials of callers; `auth` has the claims of the token")
  }
  if (source === 'params' && params?.has(first) === false) return refuse(`the path has no parameter "${first}"`, nearest(first, params))
  if (source === 'results' && results !== undefined) {
    const result = results.get(first)
    if (result === undefined) return refuse(`no earlier query has a result "${first}"`, nearest(first, results.keys()))
    const unknown = unknownMember(path.slice(1), result)
    if (unknown !== undefined) return refuse(unknown.reason, unknown.suggestion)
  }
  if (source === 'files' && files?.has(first) === false) return refuse(`the form has no file "${first}"`, nearest(first, files))
  if (source === 'files' && second !== undefined && !fileMembers.includes(second)) {
    return refuse(`a file has no \`${second}\`: expected one of ${fileMembers.join(', ')}`, nearest(second, fileMembers))
  }
  if (source === 'steps' && steps?.has(first) === false) return refuse(`no earlier step has the id "${first}"`, nearest(first, steps.keys()))
  if (source === 'steps' && second !== undefined && second !== 'result' && second !== 'error') {
    return refuse(`a step has \`steps.${first}.result\` and, if it failed, \`steps.${first}.error\``, nearest(second, ['result', 'error']))
  }
  if (source === 'steps' && second === 'result') {
    const excluded = excludedMember(path.slice(2), steps?.get(first) ?? [])
    if (excluded !== undefined) return refuse(excluded)
  }
  if (source === 'tenant' && first !== 'id' && first !== 'config') {
    return refuse('a tenant has `tenant.id` and `tenant.config`', nearest(first, ['id', 'config']))
  }
  return true
}

const secretKey = /^[A-Za-z0-9_.-]{1,128}$/

function memberPath (source: TemplateSource, path: PathNode['path']): (string | number)[] {
  const [first, ...rest] = path
  // Header names are case-insensitive, and Node gives them in lower case.
  if (source === 'headers' && first !== undefined) return [String(first).toLowerCase(), ...rest]
  // In an expression, the dots of a key belong to a path.
  return source === 'secret' && path.length > 1 ? [path.join('.')] : [...path]
}

function sourceNames ({ sources }: TemplateContext): string {
  return `expected one of ${[...sources].map((source) => source === 'now' || source === 'uuid' ? `${source}()` : source).join(', ')}`
}
