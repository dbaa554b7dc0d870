/** Whether PostgreSQL can order the values of a type. Types without an order are compared only as text. */
import { itemType, kindOf } from './column-value.js'

/** PostgreSQL's built-in types without an order; statements that order by them fail. */
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

/** The remedy, for the end of a message. */
export function orderedInstead (type: string): string {
  return type === 'json' ? ': make it jsonb' : ''
}
