/** Faults of a route that are independent of its tables and of single values. */
import type { RouteQuery } from '../queries/compiled-query.js'
import type { FaultList } from '../schema/faults.js'
import type { Route } from '../schema/route.js'
import { refuseSecrets } from './response.js'
import { methodOf } from './route-parts.js'
import { computedNames } from './transform.js'
import { checkWebhookRules } from './webhook.js'
import { checkWorkflowRules } from './workflow.js'

/** Adds a fault for each part without effect, and for secrets in the documentation. */
export function checkRouteRules (route: Route, pointer: string, faults: FaultList): void {
  if (route.request?.body !== undefined && methodOf(route) === 'GET') faults.add(`${pointer}/request/body`, 'a `get` request cannot have a body')
  if (route.transform !== undefined) checkTransform(route, route.transform, `${pointer}/transform`, faults)
  checkWebhookRules(route, pointer, faults)
  checkWorkflowRules(route, pointer, faults)
  refuseSecrets(route.description, `${pointer}/description`, faults, 'a description')
  refuseSecrets(route.tags, `${pointer}/tags`, faults, 'a description')
  refuseSecrets(route.request, `${pointer}/request`, faults, 'the rules of a request, which appear in the documentation')
}

/** Reports a transform that computes nothing, or has no data to compute from. */
function checkTransform (route: Route, transform: NonNullable<Route['transform']>, pointer: string, faults: FaultList): void {
  if (computedNames(transform).length === 0) faults.add(pointer, 'the transform does not compute anything: expected `fields`')
  else if (
    route.queries === undefined && route.firebaseQueries === undefined && route.integrations === undefined && route.workflow === undefined
  ) faults.add(pointer, 'the response has nothing to compute from: `response` uses templates')
}

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
    faults.add(pointer, 'the route writes to the SQL database and to Firestore, but a transaction cannot span both: write to one of them')
  }
  const written = new Set<string>()
  for (const { store, table, write, key, resultKind } of queries) {
    if (store !== 'firestore') continue
    if (write) written.add(table)
    else if ((resultKind === 'page' || resultKind === 'cursorPage') && written.has(table)) {
      faults.add(
        pointer,
        `the \`query\` "${key}" cannot see the route's earlier writes to "${table}", because Firestore writes at the end of a transaction: move it before them`
      )
    }
  }
}
