/** All steps of a workflow, nested ones included. */
import type { Step } from '../schema/workflow.js'
import type { CompiledStep } from './types.js'

export function * everyStep (steps: readonly Step[]): Generator<Step> {
  for (const step of steps) {
    yield step
    if (step.parallel !== undefined) yield * everyStep(step.parallel)
  }
}

/** The same for compiled steps, including the targets of switches. */
export function * everyCompiled (steps: Iterable<CompiledStep>): Generator<CompiledStep> {
  for (const step of steps) {
    yield step
    if (step.kind === 'parallel') yield * everyCompiled(step.steps)
    else if (step.kind === 'switch') {
      yield * everyCompiled(new Set([...step.cases.values(), ...step.fallback === null ? [] : [step.fallback]]))
    }
  }
}
