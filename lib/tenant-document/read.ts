/** Reads a tenant's document and adds its defaults. */
import { read, type Reading } from '../document/reader.js'
import { withDefaultRule } from '../document/rules/sections.js'
import { Sections } from '../document/sections.js'
import { failure } from '../errors.js'
import { deepFreeze, isRecord } from '../json/plain-value.js'
import { ConfigError, FaultList } from '../schema/faults.js'
import { Credentials, CustomIntegrations } from '../schema/integrations.js'
import type { Route } from '../schema/route.js'
import { TenantCors } from '../schema/server.js'
import { Webhooks } from '../schema/webhook.js'
import type { Workflow } from '../schema/workflow.js'
import { Settings, TenantCache, TenantDocument as Schema, TenantRateLimit } from './schema.js'

/** Reads a checked document, adds its defaults, and freezes it. Throws a ConfigError if a section is invalid for this version. */
export function readTenantDocument (stored: unknown): TenantDocument {
  const faults = new FaultList()
  const written = isRecord(stored) ? stored : {}
  const { routes = [], workflows = [] } = written
  const sections = readSections(written, readingOf(faults))
  faults.throwIfAny()
  if (!isList<Route>(routes) || !isList<Workflow>(workflows)) {
    throw new Error('the routes or workflows of a saved document are not an array')
  }
  return compose(sections, routes, workflows)
}

/** The options for reading a tenant's document: templates are not resolved before compilation. */
export function readingOf (faults: FaultList): Reading {
  return { faults, env: {}, settings: false }
}

/** Reads all members except routes and workflows, which are read one by one. */
export function readSections (members: Readonly<Record<string, unknown>>, reading: Reading): Sections {
  // Routes and workflows that are not arrays are reported here too.
  const rest = Object.fromEntries(Object.entries(members).filter(([name, value]) => !(listed.has(name) && Array.isArray(value))))
  return new Sections(read(Schema, rest, '', reading), reading.faults.faults)
}

const listed: ReadonlySet<string> = new Set(['routes', 'workflows'])

/** A tenant's document with its defaults. */
export type TenantDocument = ReturnType<typeof compose>

/** Composes the document from valid sections. */
export function compose (sections: Sections, routes: readonly Route[], workflows: readonly Workflow[]) {
  const rateLimit = sections.get('rateLimit', TenantRateLimit)
  return deepFreeze({
    routes,
    settings: sections.get('settings', Settings) ?? {},
    workflows,
    webhooks: sections.get('webhooks', Webhooks) ?? [],
    credentials: sections.get('credentials', Credentials),
    customIntegrations: sections.get('customIntegrations', CustomIntegrations),
    rateLimit: rateLimit && withDefaultRule(rateLimit),
    cache: sections.get('cache', TenantCache),
    cors: sections.get('cors', TenantCors)
  })
}

/** The items need no check, because the saved document has been checked. */
function isList<Item> (value: unknown): value is Item[] {
  return Array.isArray(value)
}

const maxDetails = 100

/** Throws a ConfigError as `configInvalid`, with its faults as details, and any other error unchanged. */
export function refuse (error: unknown): never {
  if (!(error instanceof ConfigError)) throw error
  const details = error.faults.slice(0, maxDetails).map(({ pointer, message, suggestion }) => ({
    path: pointer,
    message: suggestion === undefined ? message : `${message}; did you mean "${suggestion}"?`,
    keyword: 'config'
  }))
  throw failure('configInvalid', { extras: { details } })
}
