/** The files of declared routes and workflows: `app.routeFiles`, and the forms of requests. */
import type { FastifyRequest } from 'fastify'
import type { CompiledFile } from '../../lib/compiler/files.js'
import type { Session } from '../../lib/database/engine.js'
import type { FileRules } from '../../lib/files/rules.js'
import type { StepRunner } from '../../lib/workflows/step-runners.js'

declare module 'fastify' {
  interface FastifyInstance {
    routeFiles: RouteFiles
  }
  interface FastifyRequest {
    /** The form of a route with `multipart`, from the moment that it was read; null on all other routes. */
    receivedForm: ReceivedForm | null
  }
}

export interface RouteFiles<Request = FastifyRequest> {
  readonly rules: FileRules
  /** Runs workflow steps of the kind `storage`. */
  readonly step: StepRunner
  /**
   * Reads the form of the request. Callers cannot read its files before `complete`. Rejects with `mediaTypeUnsupported`,
   * `badRequest`, `validationFailed`, `fileTooLarge`, `fileTypeRefused`, `planLimit`, `uploadTooSlow`, `tenantRequired`; nothing
   * is left then.
   */
  receive(request: Request, form: DeclaredForm): Promise<ReceivedForm>
}

/** What a route says of its form. */
export interface DeclaredForm {
  readonly files: readonly CompiledFile[]
  /** Checks the text fields, and coerces them in place. */
  readonly validate: (fields: Record<string, unknown>) => void
}

/** Files that came in a form: they become readable with what the route writes, and are removed if it fails. */
export interface ReceivedForm {
  /** The text fields, as `request.body` declares them. */
  readonly fields: Readonly<Record<string, unknown>>
  /** What `{{files.<part>}}` reads. */
  readonly files: Readonly<Record<string, object>>
  /** Of the names and bytes of its files. */
  readonly digest: string
  /** Makes the files readable with the session's transaction. It may run again, in another transaction. */
  complete(session: Session): Promise<void>
  /** What the route wrote is committed: from now on `discard` does nothing. */
  keep(): void
  /** The route has succeeded. Removes the files of a repeated request, which was answered without running the route. */
  end(): Promise<void>
  /** Removes the files, after the error of the route. */
  discard(error: unknown): Promise<void>
}
