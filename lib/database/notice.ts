/** Notices between servers. Any client of the database can send one, so each is checked. */
import { isTenantId, platformRef, type Owner } from '../identity/tenant-ref.js'
import { topics, type Change, type Topic } from './events.js'

/** The content of a notice. */
export interface SentNotice extends Change {
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
