/**
 * Items in the file, in the order of use and of expiry. All but `find`, `keys` and `held` run in a transaction, with a bounded amount of
 * work each.
 */
import type { Database, RootDatabase } from 'lmdb'
import { everyTenant } from '../../lib/cache/store.js'

const pageSize = 4096 // bytes
const bytesInPage = 1500 // of a value that shares its page with others
const bytesPerItem = 700 // in the six places of an item, with half-empty pages
const maxEvicted = 200 // items removed to make room for one
const sweepAtOnce = 16
const maxUsed = 1000 // uses remembered until the next item is stored
const usedAtOnce = 50

interface LmdbItem {
  readonly key: string
  readonly value: string
  readonly stamp: number
  /** ms since 1970 */
  readonly endsAt: number
  readonly bytes: number
}

export type LmdbItems = ReturnType<typeof createLmdbItems>

type Place = [tenant: string, id: string]
/** An item without its value. `order` is its place in the order of use. */
type Head = [stamp: number, endsAt: number, order: number, bytes: number, key: string]
/** The totals of a tenant; those of all tenants include the number of tenants that have an item. */
type Total = [items: number, bytes: number, owners: number]

export function createLmdbItems (
  env: RootDatabase,
  state: Database<number, string>,
  { maxSize, maxBytes, now }: { readonly maxSize: number, readonly maxBytes: number, readonly now: () => number }
) {
  const heads = env.openDB<Head, Place>({ name: 'heads' })
  const values = env.openDB<string, Place>({ name: 'values', encoding: 'string' })
  const order = env.openDB<Place, number>({ name: 'order' })
  const ownOrder = env.openDB<string, [tenant: string, order: number]>({ name: 'own-order' })
  const ends = env.openDB<Place, [endsAt: number, order: number]>({ name: 'ends' })
  const totals = env.openDB<Total, string>({ name: 'totals' })
  const used = new Map<string, Place>()

  function held (owner: string): Total {
    return totals.get(`${owner}:`) ?? [0, 0, 0]
  }

  /** Adds items and bytes to the totals, or subtracts them. */
  function add (tenant: string, items: number, bytes: number): void {
    const [ownItems, ownBytes] = held(tenant)
    const [allItems, allBytes, owners] = held(everyTenant)
    const left = ownItems + items
    if (left > 0) totals.put(`${tenant}:`, [left, ownBytes + bytes, 0])
    else totals.remove(`${tenant}:`)
    totals.put(`${everyTenant}:`, [allItems + items, allBytes + bytes, owners + (ownItems === 0 ? 1 : 0) - (left === 0 ? 1 : 0)])
  }

  function next (): number {
    const number = (state.get('order') ?? 0) + 1
    state.put('order', number)
    return number
  }

  /** Whether it existed, and had not expired. */
  function drop (tenant: string, id: string): boolean {
    const head = heads.get([tenant, id])
    if (head === undefined) return false
    heads.remove([tenant, id])
    values.remove([tenant, id])
    unplace(tenant, head)
    add(tenant, -1, -head[3])
    return head[1] > now()
  }

  /** Removes expired items; returns their number. */
  function sweep (limit: number): number {
    const ended = [...ends.getRange({ end: [now(), Infinity], limit })]
    for (const { value: [tenant, id] } of ended) drop(tenant, id)
    return ended.length
  }

  /** Items read here since the last stored item were used last. */
  function moveUsed (): void {
    let moved = 0
    for (const [name, [tenant, id]] of used) {
      if (++moved > usedAtOnce) break
      used.delete(name)
      const head = heads.get([tenant, id])
      if (head === undefined) continue
      const [stamp, endsAt, , bytes, key] = head
      unplace(tenant, head)
      place(tenant, id, [stamp, endsAt, next(), bytes, key])
    }
  }

  function place (tenant: string, id: string, head: Head): void {
    const [, endsAt, number] = head
    heads.put([tenant, id], head)
    order.put(number, [tenant, id])
    ownOrder.put([tenant, number], id)
    ends.put([endsAt, number], [tenant, id])
  }

  function unplace (tenant: string, [, endsAt, number]: Head): void {
    order.remove(number)
    ownOrder.remove([tenant, number])
    ends.remove([endsAt, number])
  }

  function isFull (bytes: number): boolean {
    const [items, allBytes] = held(everyTenant)
    return items >= maxSize || allBytes + bytes > maxBytes
  }

  /** If the tenant has more than its even share, its first item goes, else the first of all. */
  function evict (tenant: string, bytes: number): boolean {
    for (let dropped = 0; isFull(bytes); dropped++) {
      const [items, ownBytes] = held(tenant)
      const [, , owners] = held(everyTenant)
      const greedy = items > 0 && owners > 1 && (items >= maxSize / owners || ownBytes + bytes > maxBytes / owners)
      if (dropped === maxEvicted || empty(greedy ? tenant : everyTenant, 1) === 0) return false
    }
    return true
  }

  /** Removes the first items of a tenant, or of all; returns their number. */
  function empty (tenant: string, limit: number): number {
    const first: Place[] = tenant === everyTenant
      ? [...order.getRange({ limit })].map(({ value }) => value)
      : [...ownOrder.getRange({ start: [tenant, 0], end: [tenant, Infinity], limit })].map(({ value }) => [tenant, value])
    for (const [owner, id] of first) drop(owner, id)
    return first.length
  }

  return {
    /** The value with this stamp. */
    find (tenant: string, id: string, stamp: number): string | undefined {
      const head = heads.get([tenant, id])
      if (head === undefined || head[0] !== stamp || head[1] <= now()) return undefined
      const name = `${tenant}:${id}`
      if (used.size < maxUsed || used.has(name)) used.set(name, [tenant, id])
      return values.get([tenant, id])
    },
    /** false without room. */
    keep (tenant: string, id: string, { key, value, stamp, endsAt, bytes }: LmdbItem): boolean {
      sweep(sweepAtOnce)
      moveUsed()
      // An earlier computation may end later.
      if ((heads.get([tenant, id])?.[0] ?? 0) > stamp) return true
      drop(tenant, id)
      if (!evict(tenant, bytes)) return false
      values.put([tenant, id], value)
      place(tenant, id, [stamp, endsAt, next(), bytes, key])
      add(tenant, 1, bytes)
      return true
    },
    drop,
    empty,
    sweep,
    keys (tenant: string, limit: number): string[] {
      const found: string[] = []
      // No id contains a space, and every other character sorts after it.
      for (const { value: [, endsAt, , , key] } of heads.getRange({ start: [tenant, ''], end: [`${tenant} `, ''] })) {
        if (found.length >= limit) break
        if (endsAt > now()) found.push(key)
      }
      return found
    },
    /** The items and bytes of a tenant, or of all. */
    held (tenant: string): { items: number, bytes: number } {
      const [items, bytes] = held(tenant)
      return { items, bytes }
    }
  }
}

/** The size of an item in the file. */
export function bytesOf (key: string, value: string): number {
  const bytes = Buffer.byteLength(value)
  return bytesPerItem + 2 * Buffer.byteLength(key) + (bytes <= bytesInPage ? 2 * bytes : Math.ceil((bytes + 16) / pageSize) * pageSize)
}
