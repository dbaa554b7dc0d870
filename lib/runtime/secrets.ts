/** Provides the secrets that a route reads. */
import { LRUCache } from 'lru-cache'
import { whenKnown } from '../cache/async-cache.js'
import { lruOptions } from '../cache/lru-options.js'
import type { CompiledRoute } from '../compiler/route.js'
import type { Scope } from '../expressions/types.js'
import { type Owner, platformRef } from '../identity/tenant-ref.js'
import type { RouteCall } from './route-call.js'

type SecretValues = Scope['secrets']

export interface Secrets {
  /** All live secrets of the tenant; synchronous if they are cached. */
  values (tenant: Owner): SecretValues | Promise<SecretValues>
  /** Records a use of these keys. */
  accessed (tenant: Owner, keys: readonly string[]): void
}

const none: SecretValues = new Map()

/** The source of the values. */
export interface SecretSource {
  /** null if the plugin is not registered. */
  readonly secrets: Secrets | null
  /** Settings that a secret of the same name overrides. A missing secret is not logged for them. */
  readonly overridableEnv: ReadonlySet<string>
  /** The tenants and keys of the warnings in the last minute: a route may run a thousand times a second. */
  readonly warned: Warned
}

export type Warned = Pick<LRUCache<string, true>, 'has' | 'set'>

export function createWarned (): Warned {
  return new LRUCache<string, true>({ ...lruOptions(10_000), ttl: 60_000 })
}

/** The tenant's values for a request. A key without a value keeps its placeholder. Missing and expired values are logged. */
export function secretsFor (
  route: CompiledRoute,
  source: SecretSource,
  request: Pick<RouteCall, 'tenant' | 'log'>
): SecretValues | Promise<SecretValues> {
  if (route.secrets.length === 0) return none
  const { secrets } = source
  const { tenant } = request
  if (secrets === null || tenant === null || tenant === undefined) return warnOfMissing(route, none, source, request)
  return whenKnown(secrets.values(tenant.id), (values) => {
    secrets.accessed(tenant.id, route.secrets)
    return warnOfMissing(route, values, source, request)
  })
}

/** The tenant's values for work outside of a request, as a use of these keys. Empty without keys or plugin, and for the platform. */
export async function useSecrets (secrets: Secrets | null, tenant: Owner, keys: readonly string[]): Promise<SecretValues> {
  if (keys.length === 0 || secrets === null || tenant === platformRef) return none
  const values = await secrets.values(tenant)
  secrets.accessed(tenant, keys)
  return values
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
        ? 'a secret of the route has expired: its value is null'
        : 'a secret of the route is missing: its placeholder is not replaced'
    )
  }
  return values
}
