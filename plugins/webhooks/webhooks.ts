/** `app.webhooks`: sends events as signed requests to the webhooks that listen for them. */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { Kysely } from 'kysely'
import type { Actor } from '../../lib/database/audit.js'
import type { CompiledOutboundWebhook } from '../../lib/connectors/outbound-webhook.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import type { OutboundEvent } from '../../lib/database/outbox.js'
import type { DeliveryFilter, LoggedDelivery } from './store.js'

declare module 'fastify' {
  interface FastifyInstance {
    webhooks: Webhooks
  }
}

/** The receiver of the end of a run (`webhookOnComplete`). */
export interface Callback {
  /** Whose secret signs where `secret` is null, and in whose turn it is sent; empty for the platform. */
  readonly tenant: Owner
  readonly url: string
  /** As in the document, resolved: `whsec_<base64>`, or raw bytes. Kept encrypted until it is sent. */
  readonly secret: string | null
  /** The address is fixed in the platform's document. */
  readonly trusted: boolean
  readonly type: string
  readonly data: object
  readonly subject: string
  readonly at: Date
}

/** A tenant's outbound webhooks as a version of its document has them; version 0: it saved none. */
export interface VersionedWebhooks {
  readonly version: number
  readonly webhooks: readonly CompiledOutboundWebhook[]
}

declare module '../../lib/tenant-document/tenant-documents.js' {
  interface TenantDocuments {
    readonly webhooks: TenantWebhooks
  }
}

/** Reads a tenant's outbound webhooks from the document that it saved last. */
export type TenantWebhooks = (tenant: Owner, db: Kysely<SystemTables>) => Promise<VersionedWebhooks>

export interface Webhooks {
  /** Writes the event in the transaction; nothing where no webhook could hear it. Call `wake` when it is committed. */
  emit(transaction: Kysely<SystemTables>, event: OutboundEvent): Promise<void>
  /**
   * Whether a webhook of the platform, or of the tenant (empty: none), hears of entities. A promise only where the tenant's
   * document is not in memory.
   */
  hasSubscribers(tenant: string): boolean | Promise<boolean>
  /** @deprecated Use `hasSubscribers`. */
  hears(tenant: string): boolean | Promise<boolean>
  /** Writes a signed POST in the transaction; it is retried as events are, under one `webhook-id`. Call `wake` when it is committed. */
  callback(transaction: Kysely<SystemTables>, callback: Callback): Promise<void>
  /**
   * The secret that signs what names no other: generated when it is asked for first. `whsec_<base64>`. Empty tenant: the
   * platform's. Throws `tenantUnknown`.
   */
  secretOf(tenant: string): Promise<string>
  /** A page of the owner's deliveries, the newest first. `tenant`: empty for the platform's webhooks. */
  deliveries(
    tenant: string,
    filter: DeliveryFilter,
    page: { readonly limit: number, readonly offset: number }
  ): Promise<{ data: LoggedDelivery[], total: number }>
  /** Sends a delivery again, for 24 hours from now. Throws `notFound`. */
  redeliver(tenant: string, id: string, actor: Actor): Promise<void>
  /** New events may have been committed: deliveries start at once. Without this call they start within a few seconds. */
  wake(): void
}
