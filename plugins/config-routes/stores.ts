/** The stores that the queries of one request run on. */
import type { BoundQuery } from '../../lib/expressions/types.js'
import type { DocumentSession } from '../../lib/firestore/types.js'

export interface Stores {
  readonly sql: (bound: BoundQuery) => Promise<string | null>
  /** null where there is no Firestore, as no route then uses it. */
  readonly documents: DocumentSession | null
}
