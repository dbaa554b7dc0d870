/** A connector of one document, compiled when it is first called: its address, credentials and auth. */
import { oncePerObject } from '../cache/weak-memo.js'
import { failure } from '../errors.js'
import { noScope } from '../expressions/no-scope.js'
import type { TemplateContext } from '../expressions/reference.js'
import { compileValue } from '../expressions/template.js'
import type { CompiledValue, Reference, Scope, TemplateSource } from '../expressions/types.js'
import { FaultList, pointerTo } from '../schema/faults.js'
import { compileAction, type CompiledAction } from './action.js'
import { faultOfAddress } from './address.js'
import { compileAuth, type CompiledAuth, faultOfName } from './auth.js'
import { compileCredentials, type CompiledCredentials } from './credentials.js'
import type { ConnectorDefinition } from './definition.js'

export interface CompiledConnector {
  readonly name: string
  /** Its part of the document. */
  readonly declared: unknown
  readonly origin: 'platform' | 'tenant'
  /** The secrets that credentials, auth and address read. */
  readonly references: readonly Reference[]
  readonly credentials: CompiledCredentials | null
  readonly auth: CompiledAuth | null
  /** The base address of paths; `hostFixed` tells whether the call's params fix its host. */
  readonly base: (scope: Scope, hostFixed: boolean) => { readonly url: string, readonly trusted: boolean }
  readonly ownedBy: (scope: Scope) => boolean
  /** Compiled at the first call; null after faults. */
  readonly action: (name: string) => CompiledAction | null
}

/** The place of a connector, and the contexts of its texts. */
export interface ConnectorContext extends Omit<TemplateContext, 'sources'> {
  /** The owner of the document. */
  readonly origin: 'platform' | 'tenant'
}

const actionSources: readonly TemplateSource[] = ['params', 'secret', 'env', 'now', 'uuid']

/** The contexts of built-in connectors' texts: they read only a document's `credentials`. */
const ownTexts: TemplateContext = Object.freeze({
  faults: new FaultList(),
  env: {},
  sources: new Set<TemplateSource>([...actionSources, 'credentials']),
  ofTenant: false
})

// Begins only before the first of several slashes: otherwise a million of them before another character would take hours.
const slashesAtEnd = /(?<!\/)\/+$/

function addressIn ({ baseUrl, wholeAddress = false }: ConnectorDefinition, context: TemplateContext): Omit<CompiledValue, 'constant'> {
  const address = compileValue(baseUrl, '', context)
  if (!wholeAddress) return address
  return {
    references: address.references,
    evaluate: (scope) => {
      const whole = address.evaluate(scope)
      const base = scope.credentials?.['baseUrl']
      if (typeof whole !== 'string' || typeof base !== 'string' || !URL.canParse(whole)) return whole
      const { pathname, search } = new URL(whole)
      return base.replace(slashesAtEnd, '') + pathname + search
    }
  }
}

const secretSources: ReadonlySet<TemplateSource> = new Set<TemplateSource>(['secret', 'env'])
const settingSources: ReadonlySet<TemplateSource> = new Set<TemplateSource>(['env'])

/** A built-in connector. `declared` is its part of the document's `credentials`, at `pointer`. */
export function builtInConnector (
  definition: ConnectorDefinition,
  declared: Readonly<Record<string, string | undefined>>,
  pointer: string,
  context: ConnectorContext
): CompiledConnector {
  const { name } = definition
  const { origin } = context
  // If a setting is not set, the tenant may store a secret in its place later.
  const env = origin === 'tenant'
    ? { ...Object.fromEntries([...context.envNames ?? []].map((setting) => [setting, ''])), ...context.env }
    : context.env
  const credentials = definition.secrets === undefined
    ? null
    : compileCredentials(name, declared, definition.secrets, pointer, { ...context, env, sources: secretSources })
  const auth = definition.auth === undefined ? null : compileAuth(name, definition.auth, '', { ...ownTexts, addresses: ownTexts, origin })
  const address = addressIn(definition, ownTexts)
  const ofParams = address.references.some(({ source }) => source === 'params')
  const fixed = ofParams ? undefined : address.evaluate({ ...noScope, credentials: credentials?.fixed ?? {} })
  const wrong = typeof fixed === 'string' ? faultOfAddress(fixed) : null
  if (wrong !== null) context.faults.add(pointer, wrong)
  const ownedBy = (scope: Scope) => credentials?.ownedBy(scope) ?? false
  return {
    name,
    declared,
    origin,
    references: credentials?.references ?? [],
    credentials,
    auth,
    ownedBy,
    action: builtInActions(definition),
    base (scope, hostFixed) {
      const url = baseOf(name, address.evaluate(scope))
      if (ofParams) return { url, trusted: origin === 'platform' && hostFixed }
      // If a tenant's secret sets the address, no key of the platform may be sent there.
      if (origin === 'platform' && url !== fixed && !ownedBy(scope)) {
        throw failure('addressRefused', {
          message: `The address of the integration ${name} belongs to the tenant, but its credentials do not`
        })
      }
      return { url, trusted: origin === 'platform' && url === fixed }
    }
  }
}

export function customConnector (definition: ConnectorDefinition, pointer: string, context: ConnectorContext): CompiledConnector {
  const { faults, origin } = context
  const inside: TemplateContext = { ...context, sources: new Set(actionSources) }
  // No secret of a tenant changes the address of the platform's calls.
  const addresses: TemplateContext = {
    ...context,
    overridableEnv: new Set(),
    sources: origin === 'platform' ? settingSources : secretSources
  }
  const address = compileValue(definition.baseUrl, `${pointer}/baseUrl`, addresses)
  const fixed = address.constant ? address.evaluate(noScope) : undefined
  const wrong = typeof fixed !== 'string'
    ? null
    : faultOfAddress(fixed) ?? (fixed.includes('?') ? 'expected an address without a query string' : null)
  if (wrong !== null) faults.add(`${pointer}/baseUrl`, wrong)
  const auth = definition.auth === undefined
    ? null
    : compileAuth(definition.name, definition.auth, `${pointer}/auth`, { ...inside, sources: secretSources, addresses, origin })
  return {
    name: definition.name,
    declared: definition,
    origin,
    references: [...address.references, ...auth?.references ?? []],
    credentials: null,
    auth,
    ownedBy: (scope) => auth?.ownedBy(scope) ?? false,
    action: actionsOf(definition, `${pointer}/actions`, inside),
    base: (scope) => ({ url: baseOf(definition.name, address.evaluate(scope)), trusted: origin === 'platform' })
  }
}

/** Contexts of built-in connectors are the same for every document. */
const builtInActions = oncePerObject((definition: ConnectorDefinition) => actionsOf(definition, '', ownTexts))

function baseOf (name: string, value: unknown): string {
  if (typeof value === 'string' && value !== '') return value
  throw failure('credentialsRequired', { message: `The integration ${name} has no address` })
}

function actionsOf (
  { actions, headers = {} }: ConnectorDefinition,
  pointer: string,
  context: TemplateContext
): CompiledConnector['action'] {
  const compiled = new Map<string, CompiledAction | null>()
  for (const name of Object.keys(headers)) if (faultOfName(name) !== null) throw new Error(`the connector has a header "${name}"`)
  return (name) => {
    const known = compiled.get(name)
    if (known !== undefined) return known
    const definition = Object.hasOwn(actions, name) ? actions[name] : undefined
    const action = definition === undefined ? null : compileAction(definition, headers, pointerTo(pointer, name), context)
    compiled.set(name, action)
    return action
  }
}
