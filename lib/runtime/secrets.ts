/** Provides the secrets that a route reads. */
import { whenKnown } from '../cache/async-cache.js'
import type { Warned } from '../cache/warned.js'
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
const noSettings: ReadonlySet<string> = new Set()

/** The secrets that a part of the document can read. */
export type SecretUses = Pick<CompiledRoute, 'secrets' | 'optionalSecrets'>

type Log = Pick<RouteCall['log'], 'warn'>

/** The source of the values. */
export interface SecretSource {
  /** null if the plugin is not registered. */
  readonly secrets: Secrets | null
  /** Settings that a secret of the same name overrides. A missing secret is not logged for them. */
  readonly overridableEnv: ReadonlySet<string>
  /** A route may run a thousand times a second. */
  readonly warned: Warned
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

/**
 * The tenant's values for work besides routes, as a use of these keys. Empty without keys or plugin, and for the platform. Missing and
 * expired values are logged.
 */
export async function useSecrets (
  { secrets, warned }: Pick<SecretSource, 'secrets' | 'warned'>,
  tenant: Owner,
  uses: SecretUses,
  log: Log
): Promise<SecretValues> {
  if (uses.secrets.length === 0 || secrets === null || tenant === platformRef) return none
  const values = await secrets.values(tenant)
  secrets.accessed(tenant, uses.secrets)
  return warnOfMissing(uses, values, { overridableEnv: noSettings, warned }, { log, tenant: { id: tenant } })
}

function warnOfMissing (
  { secrets, optionalSecrets }: SecretUses,
  values: SecretValues,
  { overridableEnv, warned }: Pick<SecretSource, 'overridableEnv' | 'warned'>,
  { log, tenant }: { readonly log: Log, readonly tenant?: { readonly id: string } | null }
): SecretValues {
  for (const key of secrets) {
    const value = values.get(key)
    if (typeof value === 'string' || (value === undefined && (overridableEnv.has(key) || optionalSecrets.has(key)))) continue
    if (!warned.isFirst(tenant?.id, key)) continue
    log.warn({ key }, value === null ? 'a secret has expired: its value is null' : 'a secret is missing: its placeholder is not replaced')
  }
  return values
}
