/** Compiles the steps of a workflow in the order in which they run: each can read the steps that have ended by then. */
import { compileCondition, type ReportFault, reportFault } from '../expressions/condition.js'
import { compileExpansionGuard } from '../expressions/expansion-guard.js'
import { type CompiledExpression, compileExpression } from '../expressions/expression.js'
import type { StepPart } from '../expressions/known-members.js'
import type { TemplateContext } from '../expressions/reference.js'
import { compileValue } from '../expressions/template.js'
import type { Reference, Scope } from '../expressions/types.js'
import type { CompiledQuery } from '../queries/compiled-query.js'
import { compileQuery, type QueryContext } from '../queries/index.js'
import { knownResultOf } from '../queries/query-result.js'
import type { Query } from '../schema/query.js'
import type { Step } from '../schema/workflow.js'
import type { WorkflowContext } from './context.js'
import type { Flow, Place } from './flow.js'
import { ownMembers, queryOf } from './members.js'
import type { CompiledStep, RunnerKind, StepKinds } from './types.js'

const defaultBackoffMs = 1000
const noLocals = Object.freeze({})
const noSettings: ReadonlySet<string> = new Set()

export interface Compilation {
  readonly context: WorkflowContext
  readonly flow: Flow
  /** Without the steps. */
  readonly templates: TemplateContext
  readonly query: Omit<QueryContext, keyof TemplateContext>
  /** Collected: the reads of all steps. */
  readonly references: Reference[]
  /** Collected. */
  readonly queries: CompiledQuery[]
  /** All steps were compiled. Only a partial catalogue omits one without a fault. */
  isComplete: boolean
}

/** The ids of steps that have ended, with the parts of their results that have excluded fields. */
type Ended = Map<string, readonly StepPart[]>

/** Compiles sequential steps; those with faults are left out. `ended` gets their ids. */
export function compileInOrder (places: readonly Place[], ended: Ended, compilation: Compilation): CompiledStep[] {
  return places.flatMap((place) => compileStep(place, ended, compilation) ?? [])
}

/** Null after faults. */
function compileStep (place: Place, ended: Ended, compilation: Compilation): CompiledStep | null {
  const { step, pointer, kind } = place
  const { references, context: { faults } } = compilation
  const before = faults.faults.length
  const templates: TemplateContext = {
    ...compilation.templates,
    sources: new Set([...compilation.templates.sources, 'steps']),
    steps: new Map(ended)
  }
  const condition = step.condition === undefined ? null : compileCondition(step.condition, `${pointer}/condition`, templates)
  if (condition !== null) references.push(...condition.references)
  const { parallel: _parallel, condition: _condition, value: _value, ...texts } = step
  const base = {
    id: step.id,
    condition: condition === null ? null : condition.holds,
    attempts: step.retry?.attempts ?? 1,
    backoffMs: step.retry?.backoffMs ?? defaultBackoffMs,
    timeoutMs: step.timeoutMs ?? null,
    continues: step.onError === 'continue',
    expansionGuard: compileExpansionGuard(texts, templates)
  }
  const compiled = ((): CompiledStep | null => {
    switch (kind) {
      case 'database': {
        const query = compileDatabase(step, pointer, templates, compilation)
        return query === null ? null : { ...base, kind, query }
      }
      case 'integration': {
        const call = compileIntegration(step, pointer, templates, compilation)
        return call === null ? null : { ...base, kind, call }
      }
      case 'llm':
      case 'embeddings':
      case 'storage':
      case 'realtime':
        return compileRunner(step, kind, pointer, templates, compilation, base)
      case 'switch':
        return compileSwitch(place, ended, templates, compilation, base)
      case 'parallel': {
        // Each can read the steps before the group, and not its siblings.
        const inside = place.parallel.map((one) => ({ one, ended: new Map(ended) }))
        const steps = inside.flatMap(({ one, ended: own }) => compileStep(one, own, compilation) ?? [])
        for (const { ended: own } of inside) for (const [id, parts] of own) ended.set(id, parts)
        return { ...base, kind, steps: Object.freeze(steps) }
      }
    }
  })()
  ended.set(step.id, partsOf(place, compiled, ended, compilation))
  return compiled === null || faults.faults.length > before ? null : Object.freeze(compiled)
}

function partsOf (
  { parallel, targets }: Place,
  compiled: CompiledStep | null,
  ended: Ended,
  { context: { stored = false } }: Compilation
): readonly StepPart[] {
  if (compiled === null) return []
  const of = (id: string): readonly StepPart[] => ended.get(id) ?? []
  switch (compiled.kind) {
    case 'database':
      return stored || compiled.query.excluded.size === 0 ? [] : [{ at: [], result: knownResultOf(compiled.query) }]
    case 'parallel':
      return parallel.flatMap(({ step: { id } }) => of(id).map(({ at, result }) => ({ at: [id, ...at], result })))
    case 'switch':
      return [...targets.keys()].flatMap(of)
    default:
      return []
  }
}

type Base = Pick<CompiledStep, 'id' | 'condition' | 'attempts' | 'backoffMs' | 'timeoutMs' | 'continues' | 'expansionGuard'>

function compileDatabase (step: Step, pointer: string, templates: TemplateContext, compilation: Compilation): CompiledQuery | null {
  const { context, query: queryContext, queries, references } = compilation
  const query = queryOf(step, pointer, context.faults)
  if (query === null) return null
  if (query.data === undefined && !templates.sources.has('body') && writes.has(query.operation)) {
    context.faults.add(`${pointer}/data`, 'missing: expected the values to write, because a named workflow has no body')
    return null
  }
  const compiled = compileQuery(query, pointer, { ...queryContext, ...templates })
  if (compiled === null) {
    compilation.isComplete = false
    return null
  }
  queries.push(compiled)
  references.push(...compiled.references)
  return compiled
}

const writes: ReadonlySet<string> = new Set<Query['operation']>(['insert', 'update', 'upsert'])

function compileIntegration (
  step: Step,
  pointer: string,
  templates: TemplateContext,
  { context: { connectors, faults }, references }: Compilation
) {
  const { integration = '', action = '', params } = step
  if (connectors === undefined) {
    faults.add(pointer, 'this app cannot call other services')
    return null
  }
  const call = connectors.call({ type: integration, action, ...params !== undefined && { params } }, pointer, templates, 'integration')
  if (call !== null) references.push(...call.references)
  return call
}

/** Accepts all steps of unknown kinds. */
export const unknownStepKinds: StepKinds = Object.freeze({ llm: {}, embeddings: {}, storage: {}, realtime: {} })

/**
 * The context for stored workflows. Those met the rules of their time, and their runs must go on: the kinds of steps have no checks, and
 * steps may read excluded fields.
 */
export function storedIn<Context extends Pick<WorkflowContext, 'stepKinds'>> (context: Context): Context {
  return { ...context, stored: true, stepKinds: Object.fromEntries(Object.keys(context.stepKinds ?? {}).map((kind) => [kind, {}])) }
}

const reasons = {
  llm: 'the document has no `agent.llm`',
  embeddings: 'the document has no `agent.embedding`',
  storage: 'the document disables files',
  realtime: 'the document disables realtime'
} as const satisfies Record<RunnerKind, string>

function compileRunner (
  step: Step,
  kind: RunnerKind,
  pointer: string,
  templates: TemplateContext,
  { context: { stepKinds = {}, faults }, references }: Compilation,
  base: Base
): CompiledStep | null {
  const runner = stepKinds[kind]
  if (runner === undefined) {
    faults.add(
      `${pointer}/type`,
      `there is no runner for steps of the type \`${kind}\`: ${reasons[kind]}, and the workflows plugin was given no runner for them (its option \`steps\`)`
    )
  }
  const members = ownMembers(step)
  for (const { pointer: at, message } of runner?.check?.(members) ?? []) faults.add(`${pointer}${at}`, message)
  const value = compileValue(members, pointer, {
    ...templates,
    ...runner?.secretsRefusedIn !== undefined && { secretsRefusedIn: runner.secretsRefusedIn },
    // In a stored workflow too, whose kinds refuse nothing: the members of the room would see the tenant's secret.
    ...kind === 'realtime' && { overridableEnv: noSettings }
  })
  references.push(...value.references)
  return { ...base, kind, members: value }
}

function compileSwitch (
  { step, pointer, targets }: Place,
  ended: Ended,
  templates: TemplateContext,
  compilation: Compilation,
  base: Base
): CompiledStep | null {
  const value = compileExpression(step.value ?? '', `${pointer}/value`, templates, [])
  if (value !== null) compilation.references.push(...value.references)
  const compiled = new Map<string, CompiledStep>()
  const inside = [...targets].map(([id, place]) => ({ id, place, ended: new Map(ended) }))
  for (const { id, place, ended: own } of inside) {
    const target = compileStep(place, own, compilation)
    if (target !== null) compiled.set(id, target)
  }
  // Later steps may read every target of the switch; those that were not chosen have no result.
  for (const { ended: own } of inside) for (const [id, parts] of own) ended.set(id, parts)
  if (value === null) return null
  const cases = new Map(
    Object.entries(step.cases ?? {}).flatMap(([name, id]) => {
      const target = compiled.get(id)
      return target === undefined ? [] : [[name, target] as const]
    })
  )
  return { ...base, kind: 'switch', value: valueOf(value, `${pointer}/value`), cases, fallback: compiled.get(step.default ?? '') ?? null }
}

/** An error in the value is reported, and no case matches. */
function valueOf ({ evaluate }: CompiledExpression, pointer: string): (scope: Scope, report: ReportFault) => unknown {
  return (scope, report) => {
    try {
      return evaluate(scope, noLocals)
    } catch (error) {
      reportFault(error, pointer, report)
      return undefined
    }
  }
}
