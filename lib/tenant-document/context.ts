/** The context that a tenant's document is checked and compiled in. */
import type { RouteContext } from '../compiler/route.js'
import type { SecretUses } from '../expressions/secret-uses.js'
import type { Env } from '../expressions/environment.js'
import type { Functions } from '../schema/function.js'
import type { Pagination } from '../schema/pagination.js'
import type { Tenancy } from '../schema/tenancy.js'
import type { ConnectorSet } from '../connectors/index.js'
import type { Catalogue } from '../database/catalogue.js'
import type { TenantDocument } from './schema.js'
import type { FileRules } from '../files/rules.js'
import type { StepKinds } from '../workflows/types.js'
import { setting } from '../expressions/environment.js'
import { FaultList } from '../schema/faults.js'
import { compileConnectors } from '../connectors/index.js'

/** A route of the server itself: a built-in one, the platform's, or one of the app around it. */
export interface TakenRoute {
  /** `GET`, `POST`, ... */
  readonly method: string
  /** As Fastify's router takes it: with `:name` and `*`. */
  readonly path: string
}

export interface TenantDocumentContext {
  /** The server's; tenants see what `tenancy.env` names. */
  readonly env: Env
  readonly tenancy: Tenancy
  readonly pagination: Pagination
  readonly catalogue: Catalogue
  readonly taken: readonly TakenRoute[]
  /** The names of the platform's identity providers. Default: there are none. */
  readonly authProviders?: readonly string[]
  /** Outbound webhooks are sent. Default: true. */
  readonly sendsWebhooks?: boolean
  /** The names of the platform's tools. Default: there are none. */
  readonly tools?: ReadonlySet<string> | undefined
  /** Calls of other origins are answered where documents allow it. Default: true. */
  readonly hasCors?: boolean
  /** The platform's `cache`: a tenant turns it off, never on. Default: on, 60 s. */
  readonly cache?: { readonly enabled: boolean, readonly ttl: number }
  /** The SQL functions of the platform's document. Default: none. */
  readonly functions?: Functions
  /** Kinds of steps that the server runs. Default: none. */
  readonly stepKinds?: StepKinds | undefined
  /** Whether routes can send messages to rooms. Default: it is not judged. */
  readonly messages?: boolean
  /** What the server does with files; null where it keeps none. Default: it is not judged. */
  readonly fileRules?: FileRules | null
  /** null where the platform has no Firestore. Default: it is not judged. */
  readonly firestore?: RouteContext['firestore']
}

const platformCache = { enabled: true, ttl: 60 } // s

/**
 * What the routes of a tenant's document are compiled against.
 *
 * @param checked the document was accepted when it was saved: its bounds are not counted again. Default: false.
 */
export function routeContextOf (
  document: Pick<TenantDocument, 'cache' | 'credentials' | 'customIntegrations'>,
  context: Omit<TenantDocumentContext, 'taken'>,
  checked = false
): Omit<RouteContext, 'faults'> {
  const { env, tenancy, pagination, catalogue, cache: platform = platformCache } = context
  const { cache = { enabled: true } } = document
  return {
    catalogue,
    env: visibleEnv(env, tenancy),
    pagination,
    functions: Object.fromEntries(Object.entries(context.functions ?? {}).filter(([, { tenants }]) => tenants === true)),
    sharedTables: new Set(tenancy.sharedTables),
    origin: 'tenant',
    checked,
    envNames: new Set(tenancy.env),
    cache: { enabled: platform.enabled && cache.enabled, ttl: cache.ttl ?? platform.ttl },
    stepKinds: context.stepKinds,
    messages: context.messages,
    fileRules: context.fileRules,
    firestore: context.firestore,
    ...(checked && { connectors: connectorsOf(document, context) })
  }
}

/**
 * What a tenant's document can call: with its own credentials, whatever the platform's are. Faults go to the list; without one
 * the document was checked.
 */
export function connectorsOf (
  document: Pick<TenantDocument, 'credentials' | 'customIntegrations'>,
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
    ...secretUses !== undefined && { secretUses }
  })
}

/** The settings that a tenant's document may read. */
function visibleEnv (env: Env, tenancy: Tenancy): Env {
  return Object.freeze(Object.fromEntries(tenancy.env.flatMap((name) => {
    const value = setting(env, name)
    return value === undefined ? [] : [[name, value]]
  })))
}
