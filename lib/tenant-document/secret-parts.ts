/** The parts of a tenant's document that only callers with permission for secrets can change. */
import { member } from '../expressions/reference.js'
import type { SecretUses } from '../expressions/secret-uses.js'
import { stringifyJson } from '../json/stringify.js'
import { membersIn, pointerTo } from '../schema/faults.js'
import type { TenantDocument } from './read.js'

/**
 * JSON Pointers of the parts that read a secret or start a workflow that does, and of the connectors and settings that could send it to
 * another address.
 *
 * @param platformSettings the settings that parts of the platform's document with a secret read; null for all settings
 */
export function secretParts (
  { credentials = {}, customIntegrations = [] }: TenantDocument,
  uses: SecretUses,
  platformSettings: Iterable<string | null>
): string[] {
  const pointers = new Set<string>()
  const addSettings = (names: Iterable<string | null>) => {
    for (const name of names) pointers.add(name === null ? '/settings' : pointerTo('/settings', name))
  }
  const called = new Set<string>()
  for (const [pointer, { connectors, settings }] of uses.parts) {
    pointers.add(pointer)
    for (const connector of connectors) called.add(connector)
    addSettings(settings)
  }
  addSettings(platformSettings)
  for (const name of Object.keys(credentials)) if (called.has(name)) pointers.add(pointerTo('/credentials', name))
  for (const [index, { name, auth }] of customIntegrations.entries()) {
    // OAuth 2.0 tokens are stored as secrets, even if the definition names no secret.
    if (called.has(name) || auth?.type === 'oauth2') pointers.add(pointerTo('/customIntegrations', index))
  }
  return [...pointers]
}

/** Whether the previous document contains each of the parts unchanged. */
export function keepsParts (pointers: readonly string[], document: unknown, before: unknown): boolean {
  const known = new Map<string, ReadonlySet<string>>()
  const listed = (section: string): ReadonlySet<string> => {
    const list = member(before, section)
    const texts = known.get(section) ?? new Set(Array.isArray(list) ? list.map((item: unknown) => stringifyJson(item)) : [])
    known.set(section, texts)
    return texts
  }
  return pointers.every((pointer) => {
    const [section = '', name] = membersIn(pointer)
    const members = member(document, section)
    if (name === undefined) return stringifyJson(members) === stringifyJson(member(before, section))
    const text = stringifyJson(member(members, name))
    return Array.isArray(members) ? listed(section).has(text) : text === stringifyJson(member(member(before, section), name))
  })
}
