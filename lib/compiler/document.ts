/** Compiles the platform's document for `tenantry validate`, for the check of a configuration and for the start of a server. */
import type { Entry } from '../document/sections.js'
import { checkFunctions } from '../queries/function.js'
import type { Route } from '../schema/route.js'
import type { DeclaredWorkflow } from '../workflows/compile.js'
import { type CompiledWorkflow, compileWorkflow, definitionOf, type WorkflowSet } from '../workflows/index.js'
import { rowPathsOf } from './location.js'
import { type CompiledRoute, compileRoute } from './route.js'
import type { RouteContext } from './route-context.js'

/** The parts of a document that need compilation. */
export interface CompiledParts {
  readonly routes: readonly Pick<Entry<Route>, 'pointer' | 'value'>[]
  /** undefined if some of them are invalid. Any name is then accepted, because it may be that of an invalid workflow. */
  readonly workflows: readonly DeclaredWorkflow[] | undefined
}

/** Compiles all routes, in order. A route with faults is null. With a partial catalogue, so is a route with an unknown table. */
export function compileDocument ({ routes, workflows }: CompiledParts, context: Omit<RouteContext, 'workflows'>): (CompiledRoute | null)[] {
  const { catalogue, faults, functions = {} } = context
  if (catalogue.functions !== undefined) checkFunctions(functions, catalogue, faults)
  const set = workflows === undefined ? undefined : compileWorkflows(workflows, context)
  const routeContext = { ...context, workflows: set, rowPaths: rowPathsOf(routes.map(({ value }) => value)) }
  return routes.map(({ pointer, value }) => compileRoute(value, pointer, routeContext))
}

/** Compiles every workflow, because a schedule or a call can start any of them. */
function compileWorkflows (workflows: readonly DeclaredWorkflow[], context: Omit<RouteContext, 'workflows'>): WorkflowSet {
  const compiled = new Map<string, CompiledWorkflow | null>()
  for (const { value, pointer } of workflows) {
    const workflow = compileWorkflow(definitionOf(value), pointer, context)
    compiled.set(value.id, workflow)
    if (workflow?.tenantScoped === true && value.schedule !== undefined) {
      context.faults.add(
        `${pointer}/schedule`,
        'a scheduled run has no tenant here, but the workflow uses rows of tenants: move the schedule to the documents of tenants'
      )
    }
  }
  return { ids: [...compiled.keys()], get: (id) => compiled.get(id) }
}
