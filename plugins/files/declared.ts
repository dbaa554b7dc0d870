/** The files of declared routes and workflows: `app.routeFiles`, and the forms of requests. */
import type { FastifyRequest } from 'fastify'
import type { FileRules } from '../../lib/files/rules.js'
import type { DeclaredForm } from '../../lib/runtime/services.js'
import type { ReceivedForm } from '../../lib/runtime/route-call.js'
import type { StepRunner } from '../../lib/workflows/service-steps.js'

export type { DeclaredForm } from '../../lib/runtime/services.js'
export type { ReceivedForm } from '../../lib/runtime/route-call.js'

declare module 'fastify' {
  interface FastifyInstance {
    routeFiles: RouteFiles
  }
  interface FastifyRequest {
    /** The form of a route with `multipart`, once it is read; null on all other routes. */
    receivedForm: ReceivedForm | null
  }
}

export interface RouteFiles<Request = FastifyRequest> {
  readonly rules: FileRules
  /** Runs workflow steps of the kind `storage`. */
  readonly step: StepRunner
  /**
   * Reads the form of the request. Its files are not readable before `complete`. Rejects with `mediaTypeUnsupported`, `badRequest`,
   * `validationFailed`, `fileTooLarge`, `fileTypeRefused`, `planLimit`, `uploadTooSlow` and `tenantRequired`; nothing is left then.
   */
  receive(request: Request, form: DeclaredForm): Promise<ReceivedForm>
}
