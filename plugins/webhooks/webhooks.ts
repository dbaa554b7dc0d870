/** `app.webhooks`: sends events as signed requests to the webhooks that listen for them. */
import type { Kysely } from 'kysely'
import type { CompiledOutboundWebhook } from '../../lib/connectors/outbound-webhook.js'
import type { Actor } from '../../lib/database/audit.js'
import type { OutboundEvent } from '../../lib/database/outbox.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import type { Page } from '../../lib/http/page.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { DeliveryFilter, listDeliveries } from './store.js'

declare module 'fastify' {
  interface FastifyInstance {
    webhooks: Webhooks
  }
}

/** The receiver of the end of a run (`webhookOnComplete`). */
export interface Callback extends OutboundEvent {
  /** The owner whose generated secret signs if `secret` is null, and whose turn the delivery takes; empty for the platform. */
  readonly tenant: Owner
  readonly url: string
  /** The address in the log of deliveries, which shows it without its query string. Default: `url`. */
  readonly shownUrl?: string | undefined
  /** As in the document, resolved: `whsec_<base64>`, or raw bytes. Stored encrypted until it is sent. */
  readonly secret: string | null
  /** The platform's document fixes the address. */
  readonly trusted: boolean
}

/** The outbound webhooks of a version of a tenant's document; version 0: no document was saved. */
export interface VersionedWebhooks {
  readonly version: number
  readonly webhooks: readonly CompiledOutboundWebhook[]
}

declare module '../../lib/tenant-document/tenant-documents.js' {
  interface TenantDocuments {
    readonly webhooks: TenantWebhooks
  }
}

/** Reads a tenant's outbound webhooks from its last saved document. */
export type TenantWebhooks = (tenant: Owner, db: Kysely<SystemTables>) => Promise<VersionedWebhooks>

export interface Webhooks {
  /** Writes the event in the transaction, unless no webhook can listen for it. Call `wake` after the commit. */
  emit(transaction: Kysely<SystemTables>, event: OutboundEvent): Promise<void>
  /**
   * Whether a webhook of the platform, or of the tenant (empty: none), listens for entities. A promise only if the tenant's
   * document is not cached.
   */
  hasSubscribers(tenant: string): boolean | Promise<boolean>
  /** @deprecated Use `hasSubscribers`. */
  hears(tenant: string): boolean | Promise<boolean>
  /** Writes a signed POST in the transaction; it is retried like events, under one `webhook-id`. Call `wake` after the commit. */
  callback(transaction: Kysely<SystemTables>, callback: Callback): Promise<void>
  /**
   * The secret that signs for webhooks without a secret of their own; generated on first use. `whsec_<base64>`. Empty tenant: the
   * platform's. Throws `tenantUnknown`.
   */
  secretOf(tenant: string): Promise<string>
  /** A page of the owner's deliveries, the newest first. `tenant`: empty for the platform's webhooks. */
  deliveries(tenant: string, filter: DeliveryFilter, page: Page): ReturnType<typeof listDeliveries>
  /** Sends a delivery again, with retries for 24 hours from now. Throws `notFound`. */
  redeliver(tenant: string, id: string, actor: Actor): Promise<void>
  /** New events may have been committed: deliveries start at once. Without this call they start within a few seconds. */
  wake(): void
}
