/** Compiles the workflow of a route: its name, its input and its response. */
import { compileExpansionGuard, type ExpansionGuard } from '../expressions/expansion-guard.js'
import { unknownResult } from '../expressions/known-members.js'
import { credentialHeaders, type TemplateContext } from '../expressions/reference.js'
import { compileValue } from '../expressions/template.js'
import type { CompiledValue, JsonSchema, Reference } from '../expressions/types.js'
import { isRecord } from '../json/plain-value.js'
import { objectOf } from '../queries/schema-members.js'
import { type FaultList, nearest } from '../schema/faults.js'
import type { Route } from '../schema/route.js'
import type { RouteWorkflow } from '../schema/workflow.js'
import { compileWorkflow, type WorkflowSet } from '../workflows/compile.js'
import { readStepsOf, type WorkflowContext } from '../workflows/context.js'
import { everyStep } from '../workflows/flow.js'
import type { CompiledWorkflow } from '../workflows/types.js'
import type { CompiledResponse } from './response.js'

/** The name of its result in `{{results.workflow}}`. */
export const workflowResult = 'workflow'

/** The fault of `webhookOnComplete` in a run within the request. */
export const callbackRequiresAsync = 'requires `async: true`: otherwise the response of the route is the end of the workflow'

export interface CompiledRouteWorkflow {
  readonly workflow: CompiledWorkflow
  /** The input of the workflow; null for the body. */
  readonly input: CompiledValue | null
  readonly expansionGuard: ExpansionGuard | null
  /** It runs as a job, and the response has the address of its status. */
  readonly async: boolean
}

export interface RouteWorkflowContext extends WorkflowContext {
  /** The workflows of the document. Default: none. Unknown if the catalogue is partial. */
  readonly workflows?: WorkflowSet | undefined
}

/** Compiles the workflow of a route; null if it has none, after faults, or if its tables are unknown. */
export function compileRouteWorkflow (
  { workflow: declared }: Route,
  pointer: string,
  context: RouteWorkflowContext,
  values: TemplateContext
): CompiledRouteWorkflow | null {
  if (declared === undefined) return null
  const { faults } = context
  const before = faults.faults.length
  const at = `${pointer}/workflow`
  const input = compileInput(declared, at, values)
  const workflow = declared.ref === undefined
    ? compileInline(declared, at, context, values)
    : find(declared, declared.ref, at, context)
  if (workflow !== null && declared.async === true) refuseCredentials([...workflow.sources.headers, ...headersIn(input)], at, faults)
  if (workflow === null || faults.faults.length > before) return null
  return Object.freeze({
    workflow,
    input,
    expansionGuard: declared.input === undefined ? null : compileExpansionGuard(declared.input, values),
    async: declared.async === true
  })
}

/**
 * The context for templates of the route's response and transform: they can also read the workflow's input, its steps and its result.
 * They may read excluded fields of the steps, because they show them only to callers who have them.
 */
export function responseContextOf (values: TemplateContext, { workflow }: Route, compiled: CompiledRouteWorkflow | null): TemplateContext {
  if (workflow === undefined) return values
  const ids = compiled?.workflow.stepIds ?? (workflow.steps === undefined ? undefined : [...everyStep(workflow.steps)].map(({ id }) => id))
  return {
    ...values,
    sources: new Set([...values.sources, 'input', 'steps']),
    results: new Map([[workflowResult, unknownResult]]),
    ...ids !== undefined && { steps: new Map(ids.map((id) => [id, []])) }
  }
}

/** The same workflow, which keeps the step results that the given references read. */
export function readableBy (references: readonly Reference[], compiled: CompiledRouteWorkflow | null): CompiledRouteWorkflow | null {
  if (compiled === null) return null
  const read = readStepsOf(references, compiled.workflow.stepIds)
  if (read.size === 0) return compiled
  const { workflow } = compiled
  return Object.freeze({ ...compiled, workflow: Object.freeze({ ...workflow, readSteps: new Set([...workflow.readSteps, ...read]) }) })
}

/** Adds a fault for each member of a route that has no effect beside a workflow, or contradicts it. */
export function checkWorkflowRules (route: Route, pointer: string, faults: FaultList): void {
  const { workflow } = route
  if (workflow === undefined) return
  const at = `${pointer}/workflow`
  for (const member of ['queries', 'firebaseQueries', 'integrations'] as const) {
    if (route[member] !== undefined) faults.add(`${pointer}/${member}`, `the route runs a workflow: move its \`${member}\` to steps of the workflow`)
  }
  for (const member of ['excludeFields', 'softDelete'] as const) {
    if (route[member] !== undefined) {
      faults.add(`${pointer}/${member}`, 'the route runs a workflow, whose steps do not use this member of the route')
    }
  }
  if (route.cache?.enabled === true) faults.add(`${pointer}/cache`, 'the response of a workflow cannot be cached: its steps would not run')
  if (workflow.steps === undefined && workflow.ref === undefined) faults.add(at, 'the workflow has no steps: expected `steps` or `ref`')
  if (workflow.ref !== undefined) {
    for (const member of ['steps', 'id'] as const) {
      if (workflow[member] !== undefined) faults.add(`${at}/${member}`, '`ref` refers to a workflow, which has its own')
    }
  }
  if (workflow.async === true) {
    for (const member of ['response', 'transform'] as const) {
      if (route[member] !== undefined) faults.add(`${pointer}/${member}`, 'the response of an asynchronous workflow is sent before its result exists')
    }
  } else if (workflow.webhookOnComplete !== undefined) {
    faults.add(`${at}/webhookOnComplete`, callbackRequiresAsync)
  }
}

/** The schema of the response body; undefined for a mapping. */
export function workflowResponseSchema ({ async }: CompiledRouteWorkflow, response: CompiledResponse | null): JsonSchema | undefined {
  if (response?.kind === 'mapping') return undefined
  if (response !== null && describesResponse(response.schema)) return response.schema
  const workflowId = { type: 'string', description: 'The id of the run.' }
  if (async) {
    const statusUrl = { type: 'string', description: "The URL of the run's status." }
    return objectOf({ workflowId, status: { const: 'queued' }, statusUrl })
  }
  const result = response?.schema ?? { description: "The result of the workflow's last step." }
  return objectOf({ workflowId, status: { const: 'completed' }, result })
}

/** A schema of the whole response names one of a workflow's members; any other schema describes the result. */
export function describesResponse ({ properties }: JsonSchema): boolean {
  return isRecord(properties) && ['workflowId', 'status', 'result'].some((name) => Object.hasOwn(properties, name))
}

/** The route's references besides its response. */
export function workflowReferences (compiled: CompiledRouteWorkflow | null): readonly Reference[] {
  return compiled === null ? [] : [...compiled.input?.references ?? [], ...compiled.workflow.references]
}

function compileInput ({ input }: RouteWorkflow, pointer: string, values: TemplateContext): CompiledValue | null {
  if (input === undefined) return null
  return compileValue(input, `${pointer}/input`, {
    ...values,
    secretsRefusedIn: 'the input of a workflow, which is stored with its run: use the secret in the step instead'
  })
}

function compileInline (
  { id, steps, webhookOnComplete }: RouteWorkflow,
  pointer: string,
  context: WorkflowContext,
  { sources, params, files, rules }: TemplateContext
): CompiledWorkflow | null {
  if (steps === undefined) return null
  return compileWorkflow({ id, named: false, steps, webhookOnComplete }, pointer, context, { sources, params, files, rules })
}

/** Finds the document's workflow by `ref`, with the route's callback if it has one. */
function find ({ webhookOnComplete }: RouteWorkflow, ref: string, pointer: string, context: RouteWorkflowContext): CompiledWorkflow | null {
  const { workflows, faults, catalogue, secretUses } = context
  if (workflows === undefined && catalogue.partial === true) return null
  const found = workflows?.get(ref)
  if (found === undefined) {
    faults.add(`${pointer}/ref`, `no workflow of this document has the id "${ref}"`, nearest(ref, workflows?.ids ?? []))
    return null
  }
  if (found === null && catalogue.partial !== true) faults.add(`${pointer}/ref`, `the workflow "${ref}" has faults`)
  const uses = secretUses?.of(pointer)
  for (const key of found?.secrets ?? []) uses?.add('started', key)
  if (found === null || webhookOnComplete === undefined) return found
  return compileWorkflow({ ...found.definition, webhookOnComplete }, pointer, context)
}

/** The run is stored. */
function refuseCredentials (headers: readonly string[], pointer: string, faults: FaultList): void {
  for (const name of headers) {
    if (credentialHeaders.has(name)) {
      faults.add(pointer, `an asynchronous workflow cannot read the header ${name}, because its input is stored`)
    }
  }
}

/** The headers that the value reads: the credentials among them if it reads all. */
function headersIn (value: CompiledValue | null): string[] {
  const read = value?.references.filter(({ source }) => source === 'headers') ?? []
  return read.flatMap(({ path: [name] }) => name === undefined ? [...credentialHeaders] : [String(name)])
}
