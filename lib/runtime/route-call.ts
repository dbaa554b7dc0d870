/** The request of a declared route. */
import type { FastifyRequest } from 'fastify'
import type { Session } from '../database/engine.js'
import type { Claims, ScopeTenant } from '../expressions/types.js'

/** A request of HTTP, or a call within this process. */
export interface RouteCall
  extends Pick<FastifyRequest, 'id' | 'method' | 'url' | 'headers' | 'params' | 'query' | 'body' | 'log' | 'ip' | 'server'> {
  readonly auth: Claims | null
  readonly tenant: ScopeTenant | null
  /** The number of tool calls around this one. Absent without the plugin tools. */
  readonly toolDepth?: number
  /** The signature of a webhook was verified. */
  readonly signed?: boolean
  /** Set by a route with files when it has read the form. */
  receivedForm: ReceivedForm | null
}

/** The files of a received form. They become readable with the route's writes, and are removed if the route fails. */
export interface ReceivedForm {
  /** The text fields, as `request.body` declares them. */
  readonly fields: Readonly<Record<string, unknown>>
  /** The values of `{{files.<part>}}`. */
  readonly files: Readonly<Record<string, object>>
  /** A hash of the files' names and bytes. */
  readonly digest: string
  /** Makes the files readable within the session's transaction. A retried transaction calls it again. */
  complete (session: Session): Promise<void>
  /** The route's writes have committed: from now on `discard` does nothing. */
  keep (): void
  /** The route has succeeded. Removes the files of a replayed request, which did not run the route. */
  end (): Promise<void>
  /** Removes the files after the route has failed. */
  discard (error: unknown): Promise<void>
}
