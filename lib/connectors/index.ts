/** Connectors: the services that a document can call, from its `credentials` and `customIntegrations`. */
import type { Env } from '../expressions/environment.js'
import type { TemplateContext } from '../expressions/reference.js'
import type { SecretUses } from '../expressions/secret-uses.js'
import { listed, nearest, pointerTo, withoutFaults } from '../schema/faults.js'
import type { Credentials, CustomIntegrations } from '../schema/integrations.js'
import { builtIn } from './built-in/index.js'
import { compileCall } from './call.js'
import { builtInConnector, type CompiledConnector, type ConnectorContext, customConnector } from './connector.js'
import type { ConnectorDefinition } from './definition.js'
import type { CompiledCall, ConnectorSet, DeclaredCall } from './types.js'

export type * from './types.js'

export interface ConnectorsDocument {
  readonly credentials?: Credentials | undefined
  readonly customIntegrations?: CustomIntegrations | undefined
}

/** Secrets replace the settings in `overridableEnv` except in addresses, and all settings in credentials. */
export interface ConnectorsContext extends Pick<ConnectorContext, 'origin' | 'env' | 'envNames' | 'overridableEnv' | 'faults'> {
  /** The document was checked when it was saved: connectors are compiled at their first call. Default: false. */
  readonly checked?: boolean
  /** Collects the secrets that credentials and custom integrations read. Default: not collected. */
  readonly secretUses?: SecretUses | undefined
}

/** The connectors of the platform's document, which was checked. */
export function platformConnectors (document: ConnectorsDocument, env: Env, overridableEnv: readonly string[]): ConnectorSet {
  return withoutFaults((faults) =>
    compileConnectors(document, { origin: 'platform', env, overridableEnv: new Set(overridableEnv), faults })
  )
}

/** Used if the document's sections are invalid: calls are not checked. */
export const unknownConnectors: ConnectorSet = Object.freeze({ names: [], has: () => false, actions: () => [], call: () => null })

/** A declared connector, compiled when it is first needed. */
interface Entry {
  readonly definition: ConnectorDefinition
  readonly compiled: () => CompiledConnector
  /** The reason why it cannot be called, at its pointer in the document; null if it can. */
  readonly missing: string | null
}

/** The connectors of a document. Faults of its credentials and custom integrations go to the context's list, unless they were checked. */
export function compileConnectors (document: ConnectorsDocument, context: ConnectorsContext): ConnectorSet {
  const entries = new Map<string, Entry>()
  const inside: ConnectorContext = { ...context, ofTenant: context.origin === 'tenant' }
  for (const definition of builtIn) {
    const names = [definition.name, ...definition.aliases ?? []]
    const [first, second] = Object.entries(document.credentials ?? {}).filter(([name]) => names.includes(name))
    const [name, declared] = first ?? [definition.name, undefined]
    const pointer = pointerTo('/credentials', name)
    const entry = {
      definition,
      compiled: once(() => builtInConnector(definition, declared ?? {}, pointer, { ...inside, uses: context.secretUses?.of(pointer) })),
      missing: definition.secrets !== undefined && declared === undefined ? `the connector needs \`credentials.${definition.name}\`` : null
    }
    for (const known of names) entries.set(known, entry)
    if (second !== undefined && context.checked !== true) {
      context.faults.add(pointerTo('/credentials', second[0]), `is an alias of "${name}", which is also present: keep one of them`)
    }
    if (context.checked !== true && entry.missing === null && definition.secrets !== undefined) entry.compiled()
  }
  for (const [index, definition] of (document.customIntegrations ?? []).entries()) {
    const pointer = pointerTo('/customIntegrations', index)
    const known = entries.get(definition.name)
    if (known !== undefined) {
      context.faults.add(
        `${pointer}/name`,
        builtIn.includes(known.definition)
          ? `"${definition.name}" is a built-in connector: choose another name`
          : `two connectors have the name "${definition.name}"`
      )
      continue
    }
    const entry = {
      definition,
      compiled: once(() => customConnector(definition, pointer, { ...inside, uses: context.secretUses?.of(pointer) })),
      missing: null
    }
    entries.set(definition.name, entry)
    if (context.checked !== true) { for (const name of Object.keys(definition.actions)) entry.compiled().action(name) }
  }
  return {
    names: [...entries.keys()],
    has: (type) => entries.has(type),
    actions: (type) => Object.keys(entries.get(type)?.definition.actions ?? {}),
    call: (declared, pointer, around, typeMember = 'type') => callOf(entries, declared, pointer, around, typeMember)
  }
}

function callOf (
  entries: ReadonlyMap<string, Entry>,
  declared: DeclaredCall,
  pointer: string,
  context: TemplateContext,
  typeMember: string
): CompiledCall | null {
  const { faults } = context
  const entry = entries.get(declared.type)
  if (entry === undefined) {
    faults.add(
      `${pointer}/${typeMember}`,
      `there is no connector "${declared.type.slice(0, 64)}": expected one of ${namesIn(entries)}`,
      nearest(declared.type, entries.keys())
    )
    return null
  }
  const { definition, missing } = entry
  if (!Object.hasOwn(definition.actions, declared.action)) {
    const known = Object.keys(definition.actions)
    faults.add(
      `${pointer}/action`,
      `the connector ${definition.name} has no action "${declared.action.slice(0, 64)}": expected one of ${listed(known, maxNamed)}`,
      nearest(declared.action, known)
    )
    return null
  }
  if (missing !== null) {
    faults.add(`${pointer}/${typeMember}`, missing)
    return null
  }
  for (const name of [definition.name, ...definition.aliases ?? []]) context.uses?.add('connectors', name)
  const connector = entry.compiled()
  const action = connector.action(declared.action)
  return action === null ? null : compileCall(connector, action, declared, pointer, context)
}

const maxNamed = 40

function namesIn (entries: ReadonlyMap<string, Entry>): string {
  return listed([...new Set([...entries.values()].map(({ definition }) => definition.name))], maxNamed)
}

function once<Value> (make: () => Value): () => Value {
  let made: { readonly value: Value } | undefined
  return () => (made ??= { value: make() }).value
}
