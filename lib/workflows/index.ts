/** Compiles declared workflows for plugins/workflows. */
export type * from './types.js'
export type { Enclosing, WorkflowContext } from './context.js'
export type { WorkflowSet } from './compile.js'
export { compileWorkflow } from './compile.js'
export { storedIn, unknownStepKinds } from './steps.js'
export { createWorkflowSet, definitionOf, workflowsOf } from './compile.js'
