/** Compiles workflows into plain frozen data with closures: one, or all of a document by their names. */
import { faultOfUrl, readsSettings } from '../connectors/outbound-webhook.js'
import { compileExpansionGuard } from '../expressions/expansion-guard.js'
import { optionalSecretsOf, secretKeysOf, type TemplateContext } from '../expressions/reference.js'
import { PartUses } from '../expressions/secret-uses.js'
import { compileValue } from '../expressions/template.js'
import { hasTemplate } from '../expressions/template-parser.js'
import type { QueryContext } from '../queries/index.js'
import { unique } from '../queries/table-use.js'
import { checkStepBounds, withBoundedFaults } from '../queries/tenant-limits.js'
import { withheldBy } from '../queries/withheld.js'
import { FaultList } from '../schema/faults.js'
import type { Callback, Workflow } from '../schema/workflow.js'
import { type Enclosing, readSourcesOf, readStepsOf, templatesOf, type WorkflowContext } from './context.js'
import { everyCompiled, everyStep, flowOf } from './flow.js'
import { queryOf } from './members.js'
import { mayUseTools } from './service-steps.js'
import { type Compilation, compileInOrder } from './steps.js'
import type { CompiledCallback, CompiledWorkflow, WorkflowDefinition } from './types.js'

/**
 * Compiles a workflow; null after faults in the context's list, or if a partial catalogue lacks its tables. The first 50 faults of a
 * tenant's workflow are reported.
 *
 * @param around the route of an inline workflow
 */
export function compileWorkflow (
  definition: WorkflowDefinition,
  pointer: string,
  context: WorkflowContext,
  around: Enclosing = nowhere
): CompiledWorkflow | null {
  if (context.origin === 'platform') return compileParts(definition, pointer, context, around)
  if (context.checked !== true && !checkStepBounds(definition.steps, `${pointer}/steps`, context.faults)) return null
  return withBoundedFaults(context.faults, (faults) => compileParts(definition, pointer, { ...context, faults }, around))
}

const nowhere: Enclosing = Object.freeze({ sources: null })

function compileParts (
  definition: WorkflowDefinition,
  pointer: string,
  context: WorkflowContext,
  around: Enclosing
): CompiledWorkflow | null {
  const { faults, origin } = context
  const before = faults.faults.length
  const uses = new PartUses(context.secretUses?.of(pointer))
  const compilation = compilationOf(definition, pointer, context, around, uses)
  if (compilation === null) return null
  const steps = compileInOrder(compilation.flow.order, new Map(), compilation)
  if (compilation.references.some(({ source, path }) => source === 'headers' && path.length === 0)) {
    faults.add(pointer, 'a workflow can read only single headers: `headers.<name>`')
  }
  const callback = compileCallback(definition.webhookOnComplete, `${pointer}/webhookOnComplete`, compilation)
  if (faults.faults.length > before || !compilation.isComplete) return null

  const { references, queries, flow } = compilation
  const all = [...everyCompiled(steps)]
  return Object.freeze({
    id: definition.id ?? null,
    definition,
    origin,
    steps: Object.freeze(steps),
    stepIds: Object.freeze([...flow.ids]),
    readSteps: readStepsOf(references, flow.ids),
    sources: readSourcesOf(references),
    references: Object.freeze(references),
    secrets: Object.freeze([...new Set([...secretKeysOf(references), ...uses.keys])]),
    optionalSecrets: optionalSecretsOf(references),
    tenantScoped: queries.some((query) => query.tenantScoped),
    usesTools: [...everyStep(definition.steps)].some(mayUseTools),
    calls: all.some(({ kind }) => kind === 'integration'),
    timed: all.some(({ timeoutMs }) => timeoutMs !== null),
    waits: all.some(({ kind, attempts }) => attempts > 1 || !(kind === 'database' || kind === 'switch' || kind === 'parallel')),
    reads: unique(queries.flatMap((query) => query.reads)),
    writes: unique(queries.flatMap((query) => query.writes)),
    callback
  })
}

function compilationOf (
  definition: WorkflowDefinition,
  pointer: string,
  context: WorkflowContext,
  around: Enclosing,
  uses: PartUses
): Compilation | null {
  const flow = flowOf(definition.steps, `${pointer}/steps`, context.faults)
  if (flow === null) return null
  const templates = templatesOf(context, around, uses)
  const { catalogue, pagination, sharedTables, origin, fileRules, functions } = context
  return {
    context,
    flow,
    templates,
    query: {
      catalogue,
      pagination,
      sharedTables,
      origin,
      functions,
      deletesFiles: fileRules?.deletedWithRows === true,
      excludeFields: [],
      withheld: withheldOf(definition, context, templates)
    },
    references: [],
    queries: [],
    isComplete: true
  }
}

/** Columns that steps write from secrets, which results leave out. */
function withheldOf (
  { steps }: WorkflowDefinition,
  { catalogue }: WorkflowContext,
  templates: TemplateContext
): NonNullable<QueryContext['withheld']> {
  const scratch = new FaultList()
  const queries = [...everyStep(steps)].flatMap((step) => step.type === 'database' ? queryOf(step, '', scratch) ?? [] : [])
  return withheldBy({ queries }, catalogue, { ...templates, sources: new Set([...templates.sources, 'steps']) })
}

function compileCallback (
  callback: Callback | undefined,
  pointer: string,
  { templates, context: { faults, origin }, references }: Compilation
): CompiledCallback | null {
  if (callback === undefined) return null
  const { url, secret } = typeof callback === 'string' ? { url: callback } : callback
  const at = typeof callback === 'string' ? pointer : `${pointer}/url`
  const address = compileValue(url, at, templates)
  const signing = secret === undefined ? null : compileValue(secret, `${pointer}/secret`, templates)
  references.push(...address.references, ...signing?.references ?? [])
  const fault = hasTemplate(url) ? null : faultOfUrl(url)
  if (fault !== null) faults.add(at, fault)
  return Object.freeze({
    url: address,
    shownUrl: readsSettings(url) ? url : null,
    secret: signing,
    expansionGuard: compileExpansionGuard(callback, templates),
    trusted: origin === 'platform' && address.constant
  })
}

export interface WorkflowSet {
  readonly ids: readonly string[]
  /** Compiled at its first use. null: it has faults, which are in the context's list. undefined: the id is unknown. */
  get(id: string): CompiledWorkflow | null | undefined
}

export interface DeclaredWorkflow {
  readonly value: Workflow
  readonly pointer: string
}

export function createWorkflowSet (declared: readonly DeclaredWorkflow[], context: WorkflowContext): WorkflowSet {
  const byId = new Map(declared.map((workflow) => [workflow.value.id, workflow]))
  const compiled = new Map<string, CompiledWorkflow | null>()
  return {
    ids: Object.freeze([...byId.keys()]),
    get (id) {
      const known = compiled.get(id)
      if (known !== undefined) return known
      const entry = byId.get(id)
      if (entry === undefined) return undefined
      const result = compileWorkflow(definitionOf(entry.value), entry.pointer, context)
      compiled.set(id, result)
      return result
    }
  }
}

/** A named workflow, as it is stored with its runs. */
export function definitionOf ({ id, steps, webhookOnComplete }: Workflow): WorkflowDefinition {
  return { id, named: true, steps, ...webhookOnComplete !== undefined && { webhookOnComplete } }
}

/** The workflows of a document that was read without faults. */
export function workflowsOf (workflows: readonly Workflow[]): DeclaredWorkflow[] {
  return workflows.map((value, index) => ({ value, pointer: `/workflows/${index}` }))
}
