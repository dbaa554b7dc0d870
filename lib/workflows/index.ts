/** Workflows: from their declaration to what plugins/workflows runs. */
export type * from './types.js'
export type { Surroundings, WorkflowContext } from './context.js'
export type { WorkflowSet } from './set.js'
export { checkWorkflow, compileWorkflow, faultOfCallbackUrl } from './compile.js'
export { createWorkflowSet, definitionOf, workflowsOf } from './set.js'
