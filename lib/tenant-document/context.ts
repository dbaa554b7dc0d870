/** The context for checking and compiling a tenant's document. */
import type { RouteContext } from '../compiler/route-context.js'
import { compileConnectors, type ConnectorSet } from '../connectors/index.js'
import { type Env, setting } from '../expressions/environment.js'
import type { SecretUses } from '../expressions/secret-uses.js'
import { FaultList } from '../schema/faults.js'
import type { Tenancy } from '../schema/tenancy.js'
import type { TenantDocument } from './read.js'

/** A route of the server itself: a built-in one, one of the platform's document, or one of the embedding app. */
export interface TakenRoute {
  /** `GET`, `POST`, ... */
  readonly method: string
  /** In the syntax of Fastify's router, with `:name` and `*`. */
  readonly path: string
}

/** `env` is the server's environment; tenants see only the settings in `tenancy.env`. */
export interface TenantDocumentContext
  extends Pick<RouteContext, 'env' | 'pagination' | 'catalogue' | 'functions' | 'stepKinds' | 'messages' | 'fileRules' | 'firestore'> {
  readonly tenancy: Tenancy
  readonly taken: readonly TakenRoute[]
  /** The names of the platform's identity providers. Default: none. */
  readonly authProviders?: readonly string[]
  /** The server sends outbound webhooks. Default: true. */
  readonly sendsWebhooks?: boolean
  /** The names of the platform's tools. Default: none. */
  readonly tools?: ReadonlySet<string> | undefined
  /** The settings that parts of the platform's document with a secret read; null for all settings. Default: none. */
  readonly secretSettings?: Iterable<string | null>
  /** The server supports CORS, if documents allow it. Default: true. */
  readonly hasCors?: boolean
  /** The platform's `cache`. A tenant can disable it but not enable it. Default: enabled, 60 s. */
  readonly cache?: RouteContext['cache']
}

/**
 * The context for the routes of a tenant's document.
 *
 * @param checked the document was accepted when it was saved, so its limits are not checked again. Default: false.
 */
export function routeContextOf (
  document: Partial<Pick<TenantDocument, 'cache' | 'credentials' | 'customIntegrations'>>,
  context: Omit<TenantDocumentContext, 'taken'>,
  checked = false
): Omit<RouteContext, 'faults'> {
  const { env, tenancy, pagination, catalogue, cache: platform = { enabled: true, ttl: 60 }, functions = {} } = context
  const { stepKinds, messages, fileRules, firestore } = context
  const { cache = { enabled: true, ttl: undefined } } = document
  return {
    catalogue,
    env: visibleEnv(env, tenancy),
    pagination,
    functions: Object.fromEntries(Object.entries(functions).filter(([, { tenants }]) => tenants === true)),
    sharedTables: new Set(tenancy.sharedTables),
    origin: 'tenant',
    checked,
    envNames: new Set(tenancy.env),
    cache: { enabled: platform.enabled && cache.enabled, ttl: cache.ttl ?? platform.ttl },
    stepKinds,
    messages,
    fileRules,
    firestore,
    connectors: checked ? connectorsOf(document, context) : undefined
  }
}

/** The connectors of a tenant's document, with its own credentials. Without a list of faults the document must have been checked. */
export function connectorsOf (
  document: Partial<Pick<TenantDocument, 'credentials' | 'customIntegrations'>>,
  { env, tenancy }: Pick<TenantDocumentContext, 'env' | 'tenancy'>,
  faults?: FaultList,
  secretUses?: SecretUses
): ConnectorSet {
  return compileConnectors(document, {
    origin: 'tenant',
    env: visibleEnv(env, tenancy),
    envNames: new Set(tenancy.env),
    faults: faults ?? new FaultList(),
    checked: faults === undefined,
    secretUses
  })
}

/** The settings that a tenant's document may read. */
function visibleEnv (env: Env, tenancy: Tenancy): Env {
  return Object.freeze(Object.fromEntries(tenancy.env.flatMap((name) => {
    const value = setting(env, name)
    return value === undefined ? [] : [[name, value]]
  })))
}
