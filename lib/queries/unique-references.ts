import type { Reference } from '../expressions/types.js'

/** Removes duplicate references, keeping the order of their first use. */
export function uniqueReferences (references: readonly Reference[]): Reference[] {
  const known = new Map<string, Reference>()
  for (const reference of references) {
    const key = JSON.stringify([reference.source, ...reference.path])
    if (!known.has(key)) known.set(key, reference)
  }
  return [...known.values()]
}
