/** Ids for the tries of one transaction. */
import { randomUUID } from 'node:crypto'

/**
 * Returns a function that begins a try and returns its source of ids. The n-th id is the same in every try: Firestore may have made the
 * writes of a try whose response was lost, and the next try then writes the same documents.
 */
export function repeatableIds (): () => () => string {
  const ids: string[] = []
  return () => {
    let next = 0
    return () => {
      const id = ids[next] ??= randomUUID()
      next++
      return id
    }
  }
}
