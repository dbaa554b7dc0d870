/** From what a tenant wrote to its document with defaults. */
import type { Reading } from '../config/reader.js'
import type { Route } from '../config/schema/route.js'
import { FaultList } from '../config/faults.js'
import { withDefaultRule } from '../config/meaning/rate-limit.js'
import { read } from '../config/reader.js'
import { Credentials } from '../config/schema/credentials.js'
import { Webhooks } from '../config/schema/webhook.js'
import { Sections } from '../config/sections.js'
import { deepFreeze, isRecord } from '../plain-value.js'
import { Settings, TenantCache, TenantDocument, TenantRateLimit } from './schema.js'

/**
 * The document that was checked when it was saved, with its defaults and frozen; its routes are taken as they stand.
 * Throws a ConfigError where another section is not what this version knows.
 */
export function readTenantDocument (stored: unknown): TenantDocument {
  const faults = new FaultList()
  const written = isRecord(stored) ? stored : {}
  const { routes = [] } = written
  const sections = readSections(written, readingOf(faults))
  faults.throwIfAny()
  if (!isRoutes(routes)) throw new Error('the routes of a saved document are no array')
  return compose(sections, routes.map(deepFreeze))
}

/** How a tenant's document is read: nothing in it is resolved before it is compiled. */
export function readingOf (faults: FaultList): Reading {
  return { faults, env: {}, planned: new Set(), settings: false }
}

/** Reads all members but the routes, which are read one by one. */
export function readSections (members: Readonly<Record<string, unknown>>, reading: Reading): Sections {
  const { routes, ...rest } = members
  // What is no array of routes has its fault here as well.
  return new Sections(read(TenantDocument, Array.isArray(routes) ? rest : members, '', reading), reading.faults.faults)
}

/** Puts the document together from sections that were read without faults. */
export function compose (sections: Sections, routes: Route[]): TenantDocument {
  const credentials = sections.get('credentials', Credentials)
  const rateLimit = sections.get('rateLimit', TenantRateLimit)
  const cache = sections.get('cache', TenantCache)
  return deepFreeze({
    routes: Object.freeze(routes),
    settings: sections.get('settings', Settings) ?? {},
    webhooks: sections.get('webhooks', Webhooks) ?? [],
    ...credentials !== undefined && { credentials },
    ...rateLimit !== undefined && { rateLimit: withDefaultRule(rateLimit) },
    ...cache !== undefined && { cache }
  })
}

/** Of a document that was checked, routes are routes. */
function isRoutes (value: unknown): value is Route[] {
  return Array.isArray(value)
}
