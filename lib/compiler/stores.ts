/** Routes with queries on both the SQL database and Firestore: no transaction spans both. */
import type { FaultList } from '../schema/faults.js'
import type { RouteQuery } from '../expressions/types.js'

export type FirestoreUse = 'none' | 'reads' | 'writes'

export function firestoreUse (queries: readonly RouteQuery[]): FirestoreUse {
  const used = queries.filter(({ store }) => store === 'firestore')
  if (used.length === 0) return 'none'
  return used.some(({ write }) => write) ? 'writes' : 'reads'
}

/** Adds a fault for writes that cannot be atomic, and for a list that cannot see earlier writes. */
export function checkStores (queries: readonly RouteQuery[], pointer: string, faults: FaultList): void {
  const writes = queries.filter(({ write }) => write)
  if (new Set(writes.map(({ store }) => store)).size > 1) {
    faults.add(pointer, 'the route writes to the SQL database and to Firestore, and no transaction spans both: write to one of them')
  }
  const written = new Set<string>()
  for (const { store, table, write, key, answer } of queries) {
    if (store !== 'firestore') continue
    if (write) written.add(table)
    else if ((answer === 'page' || answer === 'cursorPage') && written.has(table)) {
      faults.add(
        pointer,
        `the \`query\` "${key}" cannot see what the route writes to "${table}" before it, since Firestore writes at the end of a transaction: put it first`
      )
    }
  }
}
