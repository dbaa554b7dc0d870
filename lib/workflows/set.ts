/** The workflows of one document, by their names. */
import type { Workflows } from '../config/schema/workflow.js'
import type { WorkflowContext } from './context.js'
import type { CompiledWorkflow } from './types.js'
import { pointerTo } from '../config/faults.js'
import { compileWorkflow } from './compile.js'

export interface WorkflowSet {
  readonly ids: readonly string[]
  /** Compiled when it is first asked for; null where it has faults, which the context's list then holds, and undefined where there is none of the id. */
  get (id: string): CompiledWorkflow | null | undefined
  /** What a caller that runs it by name must hold; undefined where there is none of the id. */
  permissions (id: string): readonly string[] | undefined
}

/** @param pointer of the list in its document */
export function createWorkflowSet (declared: Workflows, pointer: string, context: WorkflowContext): WorkflowSet {
  const byId = new Map(declared.map((workflow, index) => [workflow.id, { workflow, at: pointerTo(pointer, index) }]))
  const compiled = new Map<string, CompiledWorkflow | null>()
  return {
    ids: Object.freeze([...byId.keys()]),
    get (id) {
      const known = compiled.get(id)
      if (known !== undefined) return known
      const entry = byId.get(id)
      if (entry === undefined) return undefined
      const { workflow: { steps, webhookOnComplete }, at } = entry
      const result = compileWorkflow({ id, named: true, steps, ...webhookOnComplete !== undefined && { webhookOnComplete } }, at, context)
      compiled.set(id, result)
      return result
    },
    permissions: (id) => {
      const entry = byId.get(id)
      return entry === undefined ? undefined : entry.workflow.requiredPermissions ?? []
    }
  }
}
