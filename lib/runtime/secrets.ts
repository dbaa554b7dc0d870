/** The secrets that a route reads, for its scope. */
import type { Owner } from '../identity/tenant-ref.js'
import type { RouteCall } from '../http/route-exchange.js'
import type { CompiledRoute } from '../compiler/route.js'
import type { Scope } from '../expressions/types.js'
import { LRUCache } from 'lru-cache'
import { lruOptions } from '../cache/lru-options.js'
import { whenKnown } from '../concurrency/when-known.js'

type SecretValues = Scope['secrets']

/** The secrets of tenants. */
export interface Secrets {
  /** All live secrets of the tenant: at once where they are kept. */
  values (tenant: Owner): SecretValues | Promise<SecretValues>
  /** Counts that the values of these keys were used. */
  accessed (tenant: Owner, keys: readonly string[]): void
}

const none: SecretValues = new Map()

/** Where the values come from. */
export interface SecretSource {
  /** null where the plugin is not registered. */
  readonly secrets: Secrets | null
  /** Settings that a secret of the same name replaces: nothing is missing where there is none. */
  readonly overridableEnv: ReadonlySet<string>
  /** The tenants and keys that were warned of in the last minute; a route may be called a thousand times a second. */
  readonly warned: Warned
}

export type Warned = Pick<LRUCache<string, true>, 'has' | 'set'>

export function createWarned (): Warned {
  return new LRUCache<string, true>({ ...lruOptions(10_000), ttl: 60_000 })
}

/**
 * The values for a request: those of its tenant. A key without a value keeps its placeholder; that, and a value that has
 * expired, is logged.
 */
export function secretsFor (
  route: CompiledRoute,
  source: SecretSource,
  request: Pick<RouteCall, 'tenant' | 'log'>
): SecretValues | Promise<SecretValues> {
  if (route.secrets.length === 0) return none
  const { tenant } = request
  if (source.secrets === null || tenant === null || tenant === undefined) return warnOfMissing(route, none, source, request)
  return whenKnown(source.secrets.values(tenant.id), (values) => used(route, values, source, tenant.id, request))
}

function used (
  route: CompiledRoute,
  values: SecretValues,
  source: SecretSource,
  tenant: Owner,
  request: Pick<RouteCall, 'tenant' | 'log'>
): SecretValues {
  source.secrets?.accessed(tenant, route.secrets)
  return warnOfMissing(route, values, source, request)
}

function warnOfMissing (
  route: CompiledRoute,
  values: SecretValues,
  { overridableEnv, warned }: SecretSource,
  { log, tenant }: Pick<RouteCall, 'tenant' | 'log'>
): SecretValues {
  for (const key of route.secrets) {
    const value = values.get(key)
    if (typeof value === 'string' || (value === undefined && (overridableEnv.has(key) || route.optionalSecrets.has(key)))) continue
    const subject = `${tenant?.id} ${key}`
    if (warned.has(subject)) continue
    warned.set(subject, true)
    log.warn(
      { key },
      value === null
        ? 'a secret that the route names has expired: it is null'
        : 'a secret that the route names is not there: its placeholder stays'
    )
  }
  return values
}
