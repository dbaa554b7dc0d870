/** Change notices between the servers of one database: `app.events`. */
import type { Owner } from '../identity/tenant-ref.js'
import type { Transaction } from 'kysely'
import type { SystemTables } from './system-tables.js'

/**
 * What of a tenant changed; `users`: some of their tokens and API keys ended; `cache`: its answers are cleared, and those of all
 * where the tenant is empty.
 */
export const topics = [
  'tenant',
  'config',
  'secrets',
  'roles',
  'api-keys',
  'limits',
  'sessions',
  'users',
  'rbac',
  'queue',
  'webhooks',
  'workflows',
  'cache',
  'realtime'
] as const
export type Topic = typeof topics[number]

export interface Notice {
  readonly topic: Topic
  /** Empty for the platform. */
  readonly tenant: string
}

/** A notice after the check of its tenant. */
export interface Change extends Notice {
  readonly tenant: Owner
}

export interface Events {
  /**
   * Runs the work in one transaction. After the commit every server gets a notice of the change: this one before the
   * promise resolves, so that the writer reads its own write, the others within a second. If the work rejects, the
   * transaction is rolled back and no notice is sent. The work runs once and must use its transaction only. The transaction
   * waits for a connection in the turn of the tenant; with the topic `tenant`, in the turn of the server itself.
   */
  change<T>(notice: Notice, work: (transaction: Transaction<SystemTables>) => Promise<T>): Promise<T>
  /** Calls back for each change of the topic with its tenant; returns the function that ends it. */
  on(topic: Topic, listener: (tenant: Owner) => void): () => void
  /**
   * Calls back when notices may have been missed, since the connection that brings them was lost and is there again:
   * whatever was remembered of the database may be old, and is to be forgotten. Returns the function that ends it.
   */
  onGap(listener: () => void): () => void
}
