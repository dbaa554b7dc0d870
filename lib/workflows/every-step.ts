/** The steps of a workflow, those within others included. */
import type { Step } from '../config/schema/workflow.js'

export function * everyStep (steps: readonly Step[]): Generator<Step> {
  for (const step of steps) {
    yield step
    if (step.parallel !== undefined) yield * everyStep(step.parallel)
  }
}
