/**
 * Checks what a route says without its tables: templates, expressions, request rules, response and cache. A document
 * tells these faults together with all others, and although its database cannot be reached.
 */
import type { Env } from '../expressions/environment.js'
import type { FaultList } from '../schema/faults.js'
import type { Functions } from '../schema/function.js'
import type { Route } from '../schema/route.js'
import type { Workflow } from '../schema/workflow.js'
import type { FileRules } from '../files/rules.js'
import type { ConnectorSet } from '../connectors/types.js'
import type { StepKinds } from '../workflows/types.js'
import type { TemplateContext } from '../expressions/reference.js'
import { pointerTo } from '../schema/faults.js'
import { faultsOfRoute } from '../document/webhook-routes.js'
import { checkWorkflow } from '../workflows/compile.js'
import { definitionOf } from '../workflows/set.js'
import { compileIntegrations, integrationKeys } from './integrations.js'
import { compileDocumentQuery, type FirestoreRules, type QueryContext } from '../queries/index.js'
import { checkMembers } from '../queries/operation.js'
import { checkQueryTexts } from '../queries/texts.js'
import { compileRequest } from './request.js'
import { compileResourceLimit } from './resource-limit.js'
import { compileResponse } from './response.js'
import { compileCache } from './route-cache.js'
import { compileFiles } from './files.js'
import { fileNamesOf, pathParameters, requestRulesOf, resultKey, sourcesOf } from './route-parts.js'
import { checkRouteRules } from './route-rules.js'
import { compileTransform } from './transform.js'
import { compileRouteMessage } from './realtime.js'
import { compileWebhook } from './webhook.js'
import { answerValues, checkRouteWorkflow } from './workflow.js'

/** What a route is checked against. */
export interface RouteCheck {
  readonly faults: FaultList
  readonly env: Env
  /** The ids of the document's workflows. Default: any. */
  readonly workflows?: readonly string[]
  /** Kinds of steps that other parts run. Default: any. */
  readonly stepKinds?: StepKinds
  /** Whether the document has realtime. Default: it is not judged. */
  readonly messages?: boolean
  /** What integrations can call. Default: they are not judged. */
  readonly connectors?: ConnectorSet | undefined
  /** null where the document turns files off. Default: they are not judged. */
  readonly fileRules?: FileRules | null | undefined
  /** null where the document has no Firestore. Default: it is not judged. */
  readonly firestore?: FirestoreRules | null | undefined
  /** The SQL functions of the document. Default: they are not judged. */
  readonly functions?: Functions | undefined
}

/** What compiles a query but has no say in its texts. */
const without: Pick<QueryContext, 'catalogue' | 'pagination' | 'sharedTables' | 'origin'> = {
  catalogue: { schema: 'public', tables: new Map() },
  pagination: { defaultLimit: 1, maxLimit: 1, defaultOffset: 0 },
  sharedTables: new Set(),
  origin: 'platform'
}

/** Adds the faults that compileRoute would find whatever the tables are. */
export function checkRouteTexts (
  route: Route,
  pointer: string,
  { faults: list, env, workflows, stepKinds, connectors, fileRules, messages, firestore, functions }: RouteCheck
): void {
  const faults = faultsOfRoute(pointer, list)
  const params = pathParameters(route.path)
  const context = {
    faults,
    env,
    sources: sourcesOf(route),
    params: new Set(params),
    files: fileNamesOf(route),
    rules: requestRulesOf(route),
    bounded: false
  }
  compileFiles(route, pointer, fileRules, faults)
  const queries = checkQueries(route, pointer, context, { firestore, functions })
  const { integrations = [] } = route
  const values = { ...context, results: new Set([...queries, ...integrationKeys(integrations, queries)]) }
  if (connectors !== undefined) compileIntegrations(integrations, `${pointer}/integrations`, queries, connectors, context)
  compileRequest(route.request, `${pointer}/request`, faults, {
    params,
    paginated: false,
    hardDelete: false,
    form: route.multipart === true
  })
  checkRouteRules(route, pointer, faults)
  checkRouteWorkflow(route, pointer, { ...without, faults, env, stepKinds, connectors, functions }, values, workflows)
  compileRouteMessage(route, pointer, values, messages)
  const answers = answerValues(values, route, null)
  if (route.transform !== undefined) {
    compileTransform(route.transform, `${pointer}/transform`, answers, { several: queries.size > 1, names: null })
  }
  if (route.response !== undefined) compileResponse(route.response, `${pointer}/response`, answers)
  compileResourceLimit(route, pointer, values)
  compileWebhook(route, pointer, values)
  compileCache(route, [], pointer, { cache: { enabled: false, ttl: 1 }, pagination: without.pagination }, values)
}

/** Adds the faults that compileWorkflow would find in a workflow with a name, whatever the tables are. */
export function checkNamedWorkflow (
  workflow: Workflow,
  pointer: string,
  { faults, env, stepKinds, connectors, functions }: RouteCheck
): void {
  checkWorkflow(definitionOf(workflow), pointer, { ...without, faults, env, stepKinds, connectors, functions })
}

/** Checks each query, which sees the results of those before it; returns the names of all results. */
function checkQueries (
  route: Route,
  pointer: string,
  context: TemplateContext,
  rules: Pick<RouteCheck, 'firestore' | 'functions'>
): ReadonlySet<string> {
  const keys = new Set<string>()
  const isOne = (route.queries ?? []).length + (route.firebaseQueries ?? []).length === 1
  const queryContext = (): QueryContext => ({
    ...context,
    ...without,
    ...rules,
    ...isOne && { listRoute: `${route.method} ${route.path}` },
    results: new Set(keys),
    excludeFields: route.excludeFields ?? [],
    softDelete: route.softDelete
  })
  const take = (key: string | undefined, at: string) => {
    if (key === undefined || key.trim() === '') return
    if (keys.has(key)) context.faults.add(at, `two queries answer under the name "${key}": give one of them an \`alias\``)
    keys.add(key)
  }
  for (const [index, query] of (route.queries ?? []).entries()) {
    const at = pointerTo(pointer, 'queries', index)
    checkMembers(query, at, queryContext())
    checkQueryTexts(query, at, queryContext())
    take(resultKey(query), at)
  }
  for (const [index, query] of (route.firebaseQueries ?? []).entries()) {
    const at = pointerTo(pointer, 'firebaseQueries', index)
    // Documents are in no table that could be missing; a collection without a name has its fault already.
    if ((query.collection ?? '').trim() !== '') compileDocumentQuery(query, at, queryContext())
    take(resultKey(query), at)
  }
  return keys
}
