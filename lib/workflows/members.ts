/** The members of each kind of step; others are faults. */
import { type FaultList, nearest, pointerTo } from '../schema/faults.js'
import { type Query, queryOperations } from '../schema/query.js'
import type { Step } from '../schema/workflow.js'
import type { CompiledStep } from './types.js'

type Kind = CompiledStep['kind']
type Member = keyof Step

const ofEvery: readonly Member[] = ['id', 'type', 'condition', 'retry', 'onError', 'timeoutMs']

const databaseMembers = [
  'operation', 'table', 'function', 'arguments', 'filters', 'data', 'select', 'embeds', 'single', 'order', 'orderBy',
  'limit', 'offset', 'onConflict', 'excludeFields'
] as const satisfies readonly Member[]

interface KindMembers {
  readonly required: readonly Member[]
  readonly optional: readonly Member[]
}

const members = {
  database: { required: ['operation', 'table'], optional: databaseMembers },
  integration: { required: ['integration', 'action'], optional: ['params'] },
  llm: { required: ['prompt'], optional: ['model', 'responseFormat', 'params'] },
  embeddings: { required: [], optional: ['operation', 'model', 'data', 'params'] },
  storage: { required: ['operation'], optional: ['data', 'params'] },
  realtime: { required: ['room', 'data'], optional: ['event'] },
  switch: { required: ['value'], optional: ['cases', 'default'] },
  parallel: { required: ['parallel'], optional: [] }
} as const satisfies Record<Kind, KindMembers>

const ofCall: KindMembers = { required: ['operation', 'function'], optional: databaseMembers }

/** The kind of a step; undefined after a fault. */
export function kindOf (step: Step, pointer: string, faults: FaultList): Kind | undefined {
  const { type, parallel } = step
  if (parallel !== undefined) {
    if (type === undefined) return 'parallel'
    faults.add(`${pointer}/type`, `a step with \`parallel\` has no \`type\`: set the type "${type}" of a step within it`)
    return undefined
  }
  if (type === undefined) faults.add(pointer, 'the step has no effect: expected `type` or `parallel`')
  return type
}

/** Adds a fault for each unknown and each missing member of the kind. */
export function checkStepMembers (step: Step, kind: Kind, pointer: string, faults: FaultList): boolean {
  const before = faults.faults.length
  const { required, optional }: KindMembers = step.operation === 'call' && kind === 'database' ? ofCall : members[kind]
  const known = new Set<string>([...ofEvery, ...required, ...optional])
  for (const name of Object.keys(step)) {
    if (!known.has(name)) {
      faults.add(pointerTo(pointer, name), `a step of the type \`${kind}\` has no \`${name}\`: expected one of ${[...known].join(', ')}`)
    }
  }
  for (const name of required) {
    if (step[name] === undefined || step[name] === '') {
      faults.add(pointerTo(pointer, name), `missing: required by steps of the type \`${kind}\``)
    }
  }
  if (kind === 'switch' && step.default === undefined && Object.keys(step.cases ?? {}).length === 0) {
    faults.add(pointer, 'the switch selects no step: expected `cases` or `default`')
  }
  return faults.faults.length === before
}

/** The query of a `database` step; null after a fault. */
export function queryOf (step: Step, pointer: string, faults: FaultList): Query | null {
  const operation = queryOperations.find((known) => known === step.operation)
  if (operation === undefined) {
    faults.add(
      `${pointer}/operation`,
      `expected ${queryOperations.map((name) => `"${name}"`).join(', ')}`,
      nearest(step.operation ?? '', queryOperations)
    )
    return null
  }
  return { ...ownMembers(step), operation }
}

/** Those of the step's kind: `checkStepMembers` refuses all else. */
export function ownMembers ({ id, type, condition, retry, onError, timeoutMs, ...members }: Step) {
  return members
}
