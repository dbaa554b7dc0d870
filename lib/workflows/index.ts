/** Compiles declared workflows for plugins/workflows. */
export type * from './types.js'
export type { Enclosing, WorkflowContext } from './context.js'
export type { WorkflowSet } from './set.js'
export { compileWorkflow, faultOfCallbackUrl } from './compile.js'
export { unknownStepKinds } from './steps.js'
export { createWorkflowSet, definitionOf, workflowsOf } from './set.js'
