/** The parts of an app that its declared routes use. */
import type {} from '../idempotency/index.js'
import type {} from '../resource-limits/index.js'
import type {} from '../realtime/types.js'
import type {} from '../secrets/index.js'
import type {} from '../webhooks/index.js'
import type {} from '../workflows/index.js'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { CompiledRoute } from '../../lib/compiler/route.js'
import type { Engine } from '../../lib/database/engine.js'
import type { DocumentStore } from '../../lib/firestore/types.js'
import type { PlaceOf } from '../../lib/expressions/fault-log.js'
import type { CacheStore } from '../../lib/cache/store.js'
import type { RouteFiles } from '../files/declared.js'
import type { Idempotency } from '../idempotency/service.js'
import type { ResourceLimits } from '../resource-limits/service.js'
import type { Realtime } from '../realtime/types.js'
import type { Webhooks } from '../webhooks/webhooks.js'
import type { Loads } from './cached.js'
import type { Receipts } from './receipts.js'
import { optional } from '../../lib/plugin/optional.js'
import { createInbound, type Inbound } from './inbound.js'
import { createWarned, type SecretSource } from './secrets.js'
import type { WorkflowServing } from './workflow.js'

/** The parts of an app that a route may use. */
export interface Serving<Request = FastifyRequest, Reply = FastifyReply> extends SecretSource, WorkflowServing {
  readonly engine: Engine
  /** null where there is no Firestore, as no route then uses it. */
  readonly firestore: DocumentStore | null
  /** null where the plugin is not registered, as no route then is cached. */
  readonly cache: CacheStore | null
  readonly loads: Loads
  /** null where the plugin is not registered: no tenant then has limits. */
  readonly limits: ResourceLimits | null
  /** null if the plugin is off: writes then have no events. */
  readonly webhooks: Pick<Webhooks, 'hasSubscribers' | 'wake'> | null
  /** A permission that a tenant's own callers must hold to bypass field exclusion by naming their tenant in X-Tenant-ID. */
  readonly dashboardPermission: string | undefined
  /** null where the plugin is not registered: idempotency keys then have no effect. */
  readonly idempotency: Idempotency | null
  /** null where the plugin is not registered, as no route then takes forms. */
  readonly files: () => RouteFiles<Request> | null
  /** null where the plugin is not registered, as no route then sends messages. */
  readonly realtime: () => Realtime | null
  /** Verifies requests of other services. */
  readonly inbound: Inbound<Request, Reply>
  /** The prefix of the paths of the document. */
  readonly prefix: string
}

export interface ServingOptions {
  readonly dashboardPermission: string | undefined
  readonly overridableEnv?: readonly string[]
  /** The setting APP_URL: the address that callers see. Default: the one that a request names. */
  readonly appUrl: string | undefined
  readonly receipts: Receipts
  readonly prefix: string
}

/** Collects them from the plugins of the app. */
export function servingOf (
  app: FastifyInstance,
  { dashboardPermission, overridableEnv = [], appUrl = '', receipts, prefix }: ServingOptions
): Serving {
  const secrets = optional(app, 'secrets')()
  const warned = createWarned()
  return {
    engine: app.engine,
    firestore: app.firestore,
    cache: optional(app, 'cache')(),
    loads: new Map(),
    limits: optional(app, 'resourceLimits')(),
    integrations: optional(app, 'integrations'),
    workflows: optional(app, 'workflows')(),
    secrets,
    overridableEnv: new Set(overridableEnv),
    warned,
    webhooks: optional(app, 'webhooks')(),
    dashboardPermission,
    idempotency: optional(app, 'idempotency')(),
    files: optional(app, 'routeFiles'),
    realtime: optional(app, 'realtime'),
    prefix,
    inbound: createInbound(app, { secrets, appUrl: appUrl.trim().replace(/\/+$/, ''), warned, receipts })
  }
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
