/** Change notices between the servers of one database: `app.events`. */
import { isTenantId, type Owner, platformRef } from '../identity/tenant-ref.js'
import { isRecord, jsonIn } from '../json/plain-value.js'
import type { SystemTransaction } from './system-tables.js'

/** The kinds of changes. `users`: some tokens and API keys ended. `cache`: the tenant's responses are cleared; without a tenant, all. */
export const topics = [
  'tenant', 'config', 'secrets', 'roles', 'api-keys', 'limits', 'sessions', 'users', 'rbac', 'queue', 'webhooks',
  'workflows', 'cache', 'realtime'
] as const
export type Topic = typeof topics[number]

export interface Notice {
  readonly topic: Topic
  /** Empty for the platform. */
  readonly tenant: string
}

/** A notice whose tenant was checked. */
export interface Change extends Notice {
  readonly tenant: Owner
}

export interface Events {
  /**
   * Runs the work in one transaction. After the commit every server gets a notice of the change: this one before the promise resolves, so
   * that the writer sees its own write, the others within a second. If the work rejects, the transaction is rolled back and no notice is
   * sent. The work runs once and must use its transaction only. The transaction waits for a connection in the turn of the tenant; with the
   * topic `tenant`, in the turn of the server itself.
   */
  change<T>(notice: Notice, work: (transaction: SystemTransaction) => Promise<T>): Promise<T>
  /** Calls back with the tenant of each change of the topic; returns a function that removes the listener. */
  on(topic: Topic, listener: (tenant: Owner) => void): () => void
  /** Calls back when notices may have been missed, so that outdated data is dropped. Returns a function that removes the listener. */
  onGap(listener: () => void): () => void
}

/** The content of a notice. */
interface SentNotice extends Change {
  /** The server that made the change. */
  readonly from: string
  /** The number of the change on that server. */
  readonly number: number
}

const maxLength = 1000 // characters; the server's own have at most 200

export function isNoticed (tenant: unknown): tenant is Owner {
  return tenant === platformRef || isTenantId(tenant)
}

export function encodeNotice ({ topic, tenant, from, number }: SentNotice): string {
  return JSON.stringify({ topic, tenant, from, number })
}

/** null for a notice of another program. */
export function decodeNotice (text: string): SentNotice | null {
  if (text.length > maxLength) return null
  const value = jsonIn(text)
  if (!isRecord(value)) return null
  const { tenant, from, number } = value
  const topic = topics.find((known) => known === value['topic'])
  if (topic === undefined || !isNoticed(tenant) || typeof from !== 'string' || typeof number !== 'number') return null
  return { topic, tenant, from, number }
}
