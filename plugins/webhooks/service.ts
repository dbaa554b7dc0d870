/** What `app.webhooks` is. */
import type { Kysely } from 'kysely'
import type { SystemTables } from '../../lib/database/system-tables.js'
import type { OutboundEvent } from '../../lib/outbox.js'

/** Where the end of a run is told (`webhookOnComplete`). */
export interface Callback {
  /** Whose secret signs where `secret` is null, and in whose turn it is sent; empty for the platform. */
  readonly tenant: string
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

/** A webhook of a document that sends. */
export interface OutboundWebhook {
  readonly name: string
  readonly url: string
  readonly events: readonly string[]
  readonly secret?: string | undefined
}

/** Reads a tenant's outbound webhooks from the document that it saved last. */
export type TenantWebhooks = (tenant: string) => Promise<readonly OutboundWebhook[]>

export interface Webhooks {
  /** Writes the event in the transaction; nothing where no webhook could hear it. Call `wake` when it is committed. */
  emit (transaction: Kysely<SystemTables>, event: OutboundEvent): Promise<void>
  /**
   * Whether a webhook of the platform, or of the tenant (empty: none), hears of entities. A promise only where the tenant's
   * document is not in memory.
   */
  hears (tenant: string): boolean | Promise<boolean>
  /** Writes a signed POST in the transaction; it is retried as events are, under one `webhook-id`. Call `wake` when it is committed. */
  callback (transaction: Kysely<SystemTables>, callback: Callback): Promise<void>
  /** The secret that signs what names no other: generated when it is asked for first. `whsec_<base64>`. Empty tenant: the platform's. */
  secretOf (tenant: string): Promise<string>
  /** Something may have been committed: whoever delivers looks at once. Without it that takes a few seconds. */
  wake (): void
  /** Where tenants' webhooks come from; without it they have none. The plugin tenant-config says it. */
  useTenants (source: TenantWebhooks): void
}
