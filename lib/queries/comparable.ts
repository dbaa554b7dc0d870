/** Whether PostgreSQL can say which of two values of a type is the greater: what cannot be ordered is compared as text alone. */
import { itemType, kindOf } from './column-value.js'

/** PostgreSQL's own types without an order; statements that ask for one fail. */
const unordered: ReadonlySet<string> = new Set([
  'json',
  'jsonpath',
  'xml',
  'point',
  'line',
  'lseg',
  'box',
  'path',
  'polygon',
  'circle',
  'xid',
  'cid',
  'aclitem',
  'pg_snapshot',
  'txid_snapshot'
])

/** Arrays are ordered by their items. */
export function isOrdered (type: string): boolean {
  return !unordered.has(kindOf(type) === 'array' ? itemType(type) : type)
}

/** What to do about it, for the end of a message. */
export function orderedInstead (type: string): string {
  return type === 'json' ? ': make it jsonb' : ''
}
