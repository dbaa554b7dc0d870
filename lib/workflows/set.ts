/** The workflows of one document, by their names. */
import type { Workflow } from '../schema/workflow.js'
import type { WorkflowContext } from './context.js'
import type { CompiledWorkflow, WorkflowDefinition } from './types.js'
import { compileWorkflow } from './compile.js'

export interface WorkflowSet {
  readonly ids: readonly string[]
  /** Compiled at its first use. null: it has faults, which are in the context's list. undefined: the id is unknown. */
  get(id: string): CompiledWorkflow | null | undefined
}

/** A workflow and its place in the document. */
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
