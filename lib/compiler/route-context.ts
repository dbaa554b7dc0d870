/** The surroundings of a route: the document and the database. */
import type { FirestoreRules } from '../queries/index.js'
import type { RowPaths } from './location.js'
import type { CacheContext } from './route-cache.js'
import type { RouteWorkflowContext } from './workflow.js'

export interface RouteContext extends RouteWorkflowContext, CacheContext {
  /** Whether routes can send messages to rooms. Default: not checked. */
  readonly messages?: boolean | undefined
  /** null if Firestore is not configured. Default: not checked. */
  readonly firestore?: FirestoreRules | null | undefined
  /** The paths of the document's routes. Default: none, so that no response has a `Location`. */
  readonly rowPaths?: RowPaths
}
