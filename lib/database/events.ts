/** Change notices between the servers of one database: `app.events` (DESIGN 2 and 3). */
import type { Transaction } from 'kysely'
import type { SystemTables } from './system-tables.js'

/** What of a tenant changed; `users`: some of their tokens and API keys ended; `cache`: its answers are cleared, and those of all where the tenant is empty. */
export const topics = ['tenant', 'config', 'secrets', 'roles', 'api-keys', 'limits', 'sessions', 'users', 'rbac', 'queue', 'webhooks', 'workflows', 'cache'] as const
export type Topic = typeof topics[number]

export interface Notice {
  readonly topic: Topic
  readonly tenant: string
}

export interface Events {
  /**
   * Runs the work in one transaction. When it is committed every server hears of the change: this one before the
   * promise resolves, so that whoever wrote reads what it wrote, the others within a second. Work that rejects is rolled
   * back and told to nobody. It runs once; it must use its transaction only, which waits for a connection in the turn of
   * the tenant, or where the topic is `tenant` as the server's own.
   */
  change<T> (notice: Notice, work: (transaction: Transaction<SystemTables>) => Promise<T>): Promise<T>
  /** Calls back for each change of the topic with its tenant; returns the function that ends it. */
  on (topic: Topic, listener: (tenant: string) => void): () => void
  /**
   * Calls back when notices may have been missed, since the connection that brings them was lost and is there again:
   * whatever was remembered of the database may be old, and is to be forgotten. Returns the function that ends it.
   */
  onGap (listener: () => void): () => void
}
