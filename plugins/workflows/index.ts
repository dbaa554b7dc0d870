/** Asynchronous workflows: `app.workflows`, and the endpoints under `/agent/workflow`. A service plugin (fp). */
import type { WorkflowRuns } from './service.js'

export type { NewRun, WorkflowRuns } from './service.js'

declare module 'fastify' {
  interface FastifyInstance {
    workflows: WorkflowRuns
  }
}
