/** Faults of a route that are independent of its tables and of single values. */
import type { FaultList } from '../schema/faults.js'
import type { Route } from '../schema/route.js'
import { refuseSecrets } from './response.js'
import { methodOf } from './route-parts.js'
import { checkWebhookRules } from './webhook.js'
import { checkWorkflowRules } from './workflow.js'

/** Adds a fault for each part without effect, and for secrets in the documentation. */
export function checkRouteRules (route: Route, pointer: string, faults: FaultList): void {
  if (route.request?.body !== undefined && methodOf(route) === 'GET') faults.add(`${pointer}/request/body`, 'a `get` request has no body')
  if (route.transform !== undefined) checkTransform(route, route.transform, `${pointer}/transform`, faults)
  checkWebhookRules(route, pointer, faults)
  checkWorkflowRules(route, pointer, faults)
  refuseSecrets(route.description, `${pointer}/description`, faults, 'a description')
  refuseSecrets(route.tags, `${pointer}/tags`, faults, 'a description')
  refuseSecrets(route.request, `${pointer}/request`, faults, 'the rules of a request, which are documented')
}

/** Reports a transform that computes nothing, or has no data to compute from. */
function checkTransform (route: Route, transform: NonNullable<Route['transform']>, pointer: string, faults: FaultList): void {
  const names = [transform, ...transform.operations ?? []].flatMap(({ fields }) => Object.keys(fields ?? {}))
  if (names.length === 0) faults.add(pointer, 'the transform computes nothing: expected `fields`')
  else if (
    route.queries === undefined && route.firebaseQueries === undefined && route.integrations === undefined && route.workflow === undefined
  ) faults.add(pointer, 'there is no answer to compute from: templates in `response` say the rest')
}
