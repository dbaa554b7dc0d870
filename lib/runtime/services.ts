/** The services that a declared route uses. The plugins of an app provide them; null stands for a plugin that is not registered. */
import type { CacheStore } from '../cache/store.js'
import type { CompiledRoute } from '../compiler/route.js'
import type { CompiledRouteWorkflow } from '../compiler/workflow.js'
import type { CompiledFile } from '../compiler/files.js'
import type { RouteMessage } from '../compiler/realtime.js'
import type { CompiledWebhook } from '../compiler/webhook.js'
import type { CompiledCall } from '../connectors/types.js'
import type { Engine, Session } from '../database/engine.js'
import type { PlaceOf } from '../expressions/fault-log.js'
import type { Scope } from '../expressions/types.js'
import type { DocumentStore } from '../firestore/types.js'
import type { RouteCall, RouteReply } from '../http/route-exchange.js'
import type { Owner, TenantId } from '../identity/tenant-ref.js'
import type { IdempotencyKeys } from './idempotency.js'
import type { Loads } from './cached.js'
import type { SecretSource } from './secrets.js'

export interface RouteServices<Request extends RouteCall, Reply extends RouteReply> extends SecretSource {
  readonly engine: Engine
  /** No route uses it where it is null. */
  readonly firestore: DocumentStore | null
  readonly cache: CacheStore | null
  readonly loads: Loads
  readonly access: Access
  /** Tenants have no limits where it is null. */
  readonly limits: Limits | null
  /** Writes have no events where it is null. */
  readonly webhooks: Events | null
  /** A permission that a tenant's own callers must hold to bypass field exclusion by naming their tenant in X-Tenant-ID. */
  readonly dashboardPermission: string | undefined
  /** Idempotency keys have no effect where it is null. */
  readonly idempotency: IdempotencyKeys | null
  readonly files: () => Forms<Request> | null
  readonly integrations: () => Calls | null
  readonly realtime: () => Rooms | null
  /** Runs the workflow of a route: at once, or as a job. Resolves with the body of the response as JSON text. */
  readonly runWorkflow: (started: CompiledRouteWorkflow, run: WorkflowStart<Request, Reply>) => Promise<string>
  /** Verifies the request of another service, and runs the work where its signature is right. */
  readonly inbound: (webhook: CompiledWebhook, request: Request, reply: Reply, work: () => Promise<string>) => Promise<string>
  /** The prefix of the paths of the document. */
  readonly prefix: string
}

/** The permissions of callers. */
export interface Access {
  /** Throws, or rejects, unless the caller holds all of them. */
  requirePermissions (request: RouteCall, permissions: readonly string[]): void | Promise<void>
  hasPermission (request: RouteCall, permission: string): boolean | Promise<boolean>
}

export interface Limits {
  /** Takes what the caller is about to use; throws `resourceLimit` where there is no room. */
  take (request: RouteCall, use: { readonly resource: string, readonly metric: string, readonly amount: number }): Taken | Promise<Taken>
}

export interface Taken {
  /** Gives it back, once: what was not done is not used. Never rejects. */
  give (): Promise<void>
}

export interface Events {
  /** Whether a webhook hears of entities. */
  hasSubscribers (owner: Owner): boolean | Promise<boolean>
  /** Events were committed. */
  wake (): void
}

export interface Forms<Request> {
  receive (request: Request, form: DeclaredForm): Promise<ReceivedForm>
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
  complete (session: Session): Promise<void>
  /** What the route wrote is committed: from now on `discard` does nothing. */
  keep (): void
  /** The route has succeeded. Removes the files of a repeated request, which was answered without running the route. */
  end (): Promise<void>
  /** Removes the files, after the error of the route. */
  discard (error: unknown): Promise<void>
}

/** Calls to other services. */
export interface Calls {
  run (call: CompiledCall, scope: Scope, options: { readonly tenant: Owner, readonly log: RouteCall['log'] }): Promise<unknown>
}

export interface Rooms {
  publish (tenant: TenantId, message: RouteMessage): void
}

export interface WorkflowStart<Request, Reply> {
  readonly route: CompiledRoute
  readonly request: Request
  readonly reply: Reply
  readonly scope: Scope
  readonly placeOf: PlaceOf
}

/** The document that a route stands in. */
export interface Origin {
  /** Keeps the cached answers of two versions of a document apart. */
  readonly generation: string
  /** Places in the document: what is compiled of a tenant's route may be shared, and has places within the route. */
  readonly placeOf: PlaceOf
  /** The `GET` route on the path of the route, which shows the versions of what the route changes; null without one. */
  readOnPath(): CompiledRoute | null
}
