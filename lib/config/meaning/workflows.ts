/** Checks of the workflows of a document beyond their schema. */
import type { FaultList } from '../faults.js'
import type { Workflow } from '../schema/workflow.js'
import type { Entry } from '../sections.js'

/** Two workflows never share an id. */
export function checkWorkflows (workflows: readonly Entry<Workflow>[], faults: FaultList): void {
  const seen = new Map<string, string>()
  for (const { pointer, value: { id } } of workflows) {
    const first = seen.get(id)
    if (first === undefined) seen.set(id, pointer)
    else faults.add(`${pointer}/id`, `the workflow at ${first} has the id "${id}" already`)
  }
}
