/** Notices as they travel between servers. Any client of the database can send one, so each is checked. */
import { isTenantId, platformRef, type Owner } from '../identity/tenant-ref.js'
import { topics, type Change, type Topic } from './events.js'

/** What one server tells the others. */
export interface SentNotice extends Change {
  /** The server that made the change. */
  readonly from: string
  /** Which of its changes. */
  readonly number: number
}

const maxLength = 1000 // characters; the longest that is ours has some 200

export function isNoticed (tenant: unknown): tenant is Owner {
  return tenant === platformRef || isTenantId(tenant)
}

export function encodeNotice ({ topic, tenant, from, number }: SentNotice): string {
  return JSON.stringify({ topic, tenant, from, number })
}

/** null for what no server of ours has sent. */
export function decodeNotice (text: string): SentNotice | null {
  if (text.length > maxLength) return null
  const value = parsed(text)
  if (
    typeof value !== 'object' || value === null || !('topic' in value && 'tenant' in value && 'from' in value && 'number' in value)
  ) { return null }
  const { topic, tenant, from, number } = value
  if (!isTopic(topic) || !isNoticed(tenant) || typeof from !== 'string' || typeof number !== 'number') return null
  return { topic, tenant, from, number }
}

function parsed (text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

function isTopic (value: unknown): value is Topic {
  return topics.some((topic) => topic === value)
}
