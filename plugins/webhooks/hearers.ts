/** The webhooks that may want an event: the platform's, and those of the tenants that this process has loaded. */
import type { Kysely } from 'kysely'
import type { Events } from '../../lib/database/events.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import type { CompiledOutboundWebhook } from '../../lib/connectors/outbound-webhook.js'
import type { TenantWebhooks, VersionedWebhooks } from './webhooks.js'
import { createLoadCache } from '../../lib/cache/load-cache.js'
import { entityKinds } from '../../lib/webhooks/events.js'

const maxTenants = 10_000 // whose webhooks are kept; most have none

/** Webhooks, and what they hear. */
export interface Hearers extends Pick<VersionedWebhooks, 'webhooks'> {
  /** Of the document; null: of none. */
  readonly version: number | null
  readonly kinds: ReadonlySet<string>
  readonly entities: boolean
}

export interface HearerBook {
  readonly platform: Hearers
  /** At once where they are at hand. */
  of(tenant: string): Hearers | Promise<Hearers>
  /** Within a transaction of the caller: listeners that are not in memory are read with it, and not kept. */
  within(transaction: Kysely<SystemTables>, tenant: string): Hearers | Promise<Hearers>
  forget(tenant: string): void
  close(): void
}

export interface HearerOptions {
  readonly platform: readonly CompiledOutboundWebhook[]
  /** null: tenants have none. */
  readonly tenants: () => TenantWebhooks | null
  readonly db: Kysely<SystemTables>
  readonly events: Events
}

export function createHearers ({ platform, tenants, db, events }: HearerOptions): HearerBook {
  const own = { ...hearersOf({ version: 0, webhooks: platform }), version: null }
  const cache = createLoadCache<Hearers>({ max: maxTenants, load: (tenant) => read(tenant, db) })
  const ends = [
    events.on('config', (tenant) => cache.forget(tenant)),
    events.on('tenant', (tenant) => cache.forget(tenant)),
    events.onGap(() => cache.clear())
  ]

  async function read (tenant: string, through: Kysely<SystemTables>): Promise<Hearers> {
    const source = tenants()
    if (source === null) return unasked
    const found = await source(tenant, through)
    return found.version === 0 ? noHearers : hearersOf(found)
  }

  return {
    platform: own,
    of: (tenant) => tenant === '' || tenants() === null ? unasked : cache.get(tenant),
    within: (transaction, tenant) => tenant === '' || tenants() === null ? unasked : cache.peek(tenant) ?? read(tenant, transaction),
    forget: (tenant) => cache.forget(tenant),
    close () {
      for (const end of ends) end()
    }
  }
}

function hearersOf ({ version, webhooks }: VersionedWebhooks): Hearers {
  const kinds = new Set(webhooks.flatMap((webhook) => [...webhook.kinds]))
  return { version, webhooks, kinds, entities: entityKinds.some((kind) => kinds.has(kind)) }
}

const noHearers: Hearers = Object.freeze({ version: 0, webhooks: Object.freeze([]), kinds: new Set<string>(), entities: false })
/** Where tenants have no documents. */
const unasked: Hearers = Object.freeze({ ...noHearers, version: null })
