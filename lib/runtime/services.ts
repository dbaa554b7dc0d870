/** The services that a declared route uses. The app's plugins provide them; null stands for a plugin that is not registered. */
import type { CacheStore } from '../cache/store.js'
import type { CompiledFile } from '../compiler/files.js'
import type { RouteMessage } from '../compiler/realtime.js'
import type { CompiledRoute } from '../compiler/route.js'
import type { CompiledWebhook } from '../compiler/webhook.js'
import type { CompiledRouteWorkflow } from '../compiler/workflow.js'
import type { HeldResults } from '../concurrency/result-memory.js'
import type { CompiledCall } from '../connectors/types.js'
import type { Engine } from '../database/engine.js'
import type { IdempotencyClaim } from '../database/idempotency-claim.js'
import type { PlaceOf } from '../expressions/condition.js'
import type { Scope, ScopeTenant } from '../expressions/types.js'
import type { DocumentStore } from '../firestore/types.js'
import type { RouteReply } from '../http/route-reply.js'
import type { Owner } from '../identity/tenant-ref.js'
import type { Loads } from './cached.js'
import type { IdempotencyKeys } from './idempotency.js'
import type { ReceivedForm, RouteCall } from './route-call.js'
import type { SecretSource } from './secrets.js'

export interface RouteServices<Request extends RouteCall, Reply extends RouteReply> extends SecretSource {
  readonly engine: Engine
  /** If null, no route uses it. */
  readonly firestore: DocumentStore | null
  readonly cache: CacheStore | null
  readonly loads: Loads
  readonly access: Access
  /** If null, tenants have no limits. */
  readonly limits: Limits | null
  /** If null, writes emit no events. */
  readonly webhooks: Events | null
  /** A permission that a tenant's own callers must hold to bypass field exclusion by naming their tenant in X-Tenant-ID. */
  readonly dashboardPermission: string | undefined
  /** If null, idempotency keys have no effect. */
  readonly idempotency: IdempotencyKeys | null
  readonly files: () => Forms<Request, Reply> | null
  readonly integrations: () => Calls | null
  readonly realtime: () => Rooms | null
  /** Runs the route's workflow, either at once or as a job. Resolves with the response body as JSON text. */
  readonly runWorkflow: (started: CompiledRouteWorkflow, run: WorkflowStart<Request, Reply>) => Promise<string>
  /** Verifies the signature of another service's request, then runs the work. */
  readonly inbound: (webhook: CompiledWebhook, request: Request, reply: Reply, work: () => Promise<string>) => Promise<string>
  readonly prefix: string
}

export interface Access {
  /** Throws, or rejects, unless the caller holds all of the permissions. */
  requirePermissions (request: RouteCall, permissions: readonly string[]): void | Promise<void>
  hasPermission (request: RouteCall, permission: string): boolean | Promise<boolean>
}

export interface Limits {
  /** Takes the amount that the caller is about to use; throws `resourceLimit` if it does not fit. */
  take (
    request: RouteCall,
    use: { readonly resource: string, readonly metric: string, readonly amount: number }
  ): TakenAmount | Promise<TakenAmount>
}

export interface TakenAmount {
  /** Gives the amount back, once, because it was not used. Never rejects. */
  give (): Promise<void>
}

export interface Events {
  /** Whether a webhook subscribes to entity events. */
  hasSubscribers (owner: Owner): boolean | Promise<boolean>
  /** Call it after a commit with events. */
  wake (): void
}

export interface Forms<Request, Reply> {
  /** Identifies the caller again at the end of a slow form. */
  receive (request: Request, reply: Reply, form: DeclaredForm): Promise<ReceivedForm>
}

/** A route's declaration of its form. */
export interface DeclaredForm {
  readonly files: readonly CompiledFile[]
  /** Checks the text fields, and coerces them in place. */
  readonly validate: (fields: Record<string, unknown>) => Promise<void>
}

export interface Calls {
  run (
    call: CompiledCall,
    scope: Scope,
    options: { readonly tenant: Owner, readonly held: HeldResults | undefined, readonly log: RouteCall['log'] }
  ): Promise<unknown>
}

export interface Rooms {
  /** Throws, or rejects with, `tenantUnknown` if the tenant was deleted, even if a later tenant has its id. */
  publish (tenant: ScopeTenant, message: RouteMessage): void | Promise<void>
}

export interface WorkflowStart<Request, Reply> {
  readonly route: CompiledRoute
  readonly request: Request
  readonly reply: Reply
  readonly scope: Scope
  readonly placeOf: PlaceOf
  /** The claim of the request's idempotency key. */
  readonly claim: IdempotencyClaim | undefined
}

/** The document that contains a route. */
export interface Origin {
  /** Separates the cached responses of different versions of a document. */
  readonly generation: string
  /** Locations in the document. Compiled parts of a tenant's route may be shared, with locations relative to the route. */
  readonly placeOf: PlaceOf
  /** The `GET` route on the same path. It shows the version of the data that the route changes. null if there is none. */
  readOnPath(): CompiledRoute | null
}
