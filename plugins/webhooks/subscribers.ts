/** The webhooks that may receive an event: the platform's, and those of the tenants that this process has loaded. */
import type { Kysely } from 'kysely'
import { createAsyncCache } from '../../lib/cache/async-cache.js'
import type { CompiledOutboundWebhook } from '../../lib/connectors/outbound-webhook.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { type Owner, platformRef } from '../../lib/identity/tenant-ref.js'
import { entityKinds } from '../../lib/webhooks/events.js'
import type { TenantWebhooks, VersionedWebhooks } from './webhooks.js'

const maxTenants = 10_000 // with cached webhooks; most have none

/** Webhooks, and the events that they listen for. */
export interface Subscribers extends Pick<VersionedWebhooks, 'webhooks'> {
  /** The version of the document; null without one. */
  readonly version: number | null
  readonly kinds: ReadonlySet<string>
  readonly entities: boolean
}

export type SubscriberDirectory = ReturnType<typeof createSubscriberDirectory>

export interface SubscriberDirectoryOptions {
  readonly platform: readonly CompiledOutboundWebhook[]
  /** null: tenants have no webhooks. */
  readonly tenants: () => TenantWebhooks | null
  readonly db: Kysely<SystemTables>
}

export function createSubscriberDirectory ({ platform, tenants, db }: SubscriberDirectoryOptions) {
  const own: Subscribers = { ...subscribersOf({ version: 0, webhooks: platform }), version: null }
  const cache = createAsyncCache<Subscribers, Owner>({ max: maxTenants, load: (tenant) => read(tenant, db) })

  async function read (tenant: Owner, through: Kysely<SystemTables>): Promise<Subscribers> {
    const source = tenants()
    if (source === null) return unasked
    const found = await source(tenant, through)
    return found.version === 0 ? noSubscribers : subscribersOf(found)
  }

  const hasNone = (tenant: Owner) => tenant === platformRef || tenants() === null

  return {
    platform: own,
    /** Synchronous if they are cached. */
    of: (tenant: Owner): Subscribers | Promise<Subscribers> => hasNone(tenant) ? unasked : cache.get(tenant),
    /** Within a transaction of the caller: listeners that are not cached are read with it, and not cached. */
    within: (transaction: Kysely<SystemTables>, tenant: Owner): Subscribers | Promise<Subscribers> =>
      hasNone(tenant) ? unasked : cache.peek(tenant) ?? read(tenant, transaction),
    forget: cache.invalidate,
    clear: cache.clear
  }
}

function subscribersOf ({ version, webhooks }: VersionedWebhooks): Subscribers {
  const kinds = new Set(webhooks.flatMap((webhook) => [...webhook.kinds]))
  return { version, webhooks, kinds, entities: entityKinds.some((kind) => kinds.has(kind)) }
}

const noSubscribers: Subscribers = Object.freeze({ version: 0, webhooks: Object.freeze([]), kinds: new Set<string>(), entities: false })
/** For servers without documents of tenants. */
const unasked: Subscribers = Object.freeze({ ...noSubscribers, version: null })
