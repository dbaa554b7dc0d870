/**
 * The cache in Redis, one for all instances. A value is found in one round trip. While Redis is away there are no values; changes of that
 * time are sent to it as soon as it is back.
 */
import { randomBytes } from 'node:crypto'
import type { Redis } from 'ioredis'
import type { CacheBounds, CacheStore, MaybePromise, Miss, TableUse, Warn } from '../../lib/cache/store.js'
import { capacityOf, everyTenant } from '../../lib/cache/store.js'
import { oncePerObject } from '../../lib/cache/weak-memo.js'
import { settlesWithin } from '../../lib/concurrency/with-timeout.js'
import type { RedisConnection } from '../../lib/redis/redis.js'
import { createCounts } from './counts.js'
import { dropScript, emptyScript, findScript, keepScript, keysScript, prefix, statsScript } from './redis-scripts.js'

// The measured size of an item in Redis: its key is stored five times, and memory is allocated in steps.
const bytesPerItem = 650
const keysPerItem = 5.5
const bytesPerByte = 1.1
// Bytes of a value: commands and replies of all tenants share a connection, and wait for a long one.
const maxValueBytes = 1_048_576
const itemsAtOnce = 200 // removed by one call, so that other calls wait briefly
const maxCalls = 100_000 // of one `clear` of all
const maxSweeps = 50 // calls of one read of the figures
const maxLate = 10_000 // waiting single changes; beyond it everything counts as changed
const lateMs = 1000 // between two attempts to send refused changes

const nothing: readonly TableUse[] = []

export function createRedisCache (
  { connection, warn, ...bounds }: CacheBounds & { readonly connection: RedisConnection, readonly warn: Warn }
): CacheStore {
  const { maxSize, maxBytes } = capacityOf(bounds)
  const counts = createCounts()
  const processId = randomBytes(6).toString('base64url')
  let calls = 0
  /** Stamps that could not be removed: by key, the fields. */
  const late = new Map<string, Set<string>>()
  let lateCount = 0
  let timer: NodeJS.Timeout | undefined
  let isClosed = false

  /** Commands are sent in the order of their calls: writes are announced before later reads. */
  function ask<Value> (work: (client: Redis, memory: string) => Promise<Value>, fallback: () => Value): MaybePromise<Value> {
    if (lateCount === 0) return connection.run(work, fallback)
    return connection.run((client, memory) => {
      retryChanges(client).catch(() => {})
      return work(client, memory)
    }, fallback)
  }

  function remember (key: string, fields: readonly string[]): void {
    if (lateCount >= maxLate) {
      late.clear()
      lateCount = 0
      key = stampsOf(everyTenant)
      fields = ['']
    }
    const known = late.get(key) ?? new Set<string>()
    late.set(key, known)
    for (const field of fields) {
      if (known.has(field)) continue
      known.add(field)
      lateCount++
    }
    retryLater()
  }

  /** A Redis that refused a change may accept it later, and this instance may send no other command until then. */
  function retryLater (): void {
    if (isClosed) return
    timer ??= setTimeout(() => {
      timer = undefined
      if (lateCount > 0) connection.run(retryChanges, retryLater)
    }, lateMs).unref()
  }

  async function retryChanges (client: Redis): Promise<void> {
    const changes = [...late]
    late.clear()
    lateCount = 0
    await Promise.all(changes.map(([key, fields]) => client.hdel(key, ...fields).catch(() => remember(key, [...fields]))))
  }

  connection.onReturn(retryChanges)

  /** The next caller creates a missing stamp again. */
  function forget (key: string, fields: readonly string[]): MaybePromise<void> {
    return connection.run(
      async (client) => {
        await client.hdel(key, ...fields)
      },
      () => remember(key, fields)
    )
  }

  /** Repeats the call until nothing is left. */
  async function empty (tenant: string): Promise<number> {
    let removed = 0
    for (let call = 0; call < maxCalls; call++) {
      const count = await ask(
        async (client) => Number(await emptyScript(client, [], [orderOf(tenant), tenant === everyTenant ? '' : `${tenant}:`, itemsAtOnce])),
        () => 0
      )
      removed += count
      if (count < itemsAtOnce) break
    }
    return removed
  }

  function missed (tenant: string): Miss {
    counts.miss(tenant)
    // A unique stamp: nothing is stored or shared under it, since another instance may have written.
    return { stamp: ++calls }
  }

  /** The value, or the current stamps of the tables. */
  function lookUp (client: Redis, memory: string, tenant: string, item: string, key: string, fields: readonly (string | number)[]) {
    const keys = [item, orderOf(tenant), orderOf(everyTenant), stampsOf(everyTenant), stampsOf(tenant), sharedStamps]
    return findScript(client, keys, [key, `${tenant}:${key}`, `${processId}${(++calls).toString(36)}`, memory, ...fields])
  }

  return {
    provider: 'redis',
    shared: true,
    get (tenant, key, reads = nothing) {
      const fields = reads.length === 0 ? noFields : fieldsOf(reads)
      return ask<string | Miss>(async (client, memory) => {
        const found = await lookUp(client, memory, tenant, itemOf(tenant, key), key, fields)
        if (typeof found === 'string') {
          counts.hit(tenant)
          return found
        }
        counts.miss(tenant)
        return { stamp: String(found) }
      }, () => missed(tenant))
    },
    async set (tenant, key, value, ttlMs, stamp) {
      const bytes = bytesOf(tenant, key, value)
      if (bytes > maxBytes || Buffer.byteLength(value) > maxValueBytes) {
        warn(bytes > maxBytes ? 'it is larger than the cache' : 'it has more than 1 MB, which Redis does not keep')
        await this.delete(tenant, key)
        return
      }
      const under = stamp ??
        await ask(async (client, memory) => String(await lookUp(client, memory, tenant, noItem, '', noFields)), () => undefined)
      if (typeof under !== 'string') return
      const kept = await ask(
        async (client) =>
          await keepScript(client, [itemOf(tenant, key), orderOf(tenant), stampsOf(everyTenant), stampsOf(tenant), sharedStamps], [
            tenant,
            key,
            under,
            value,
            Math.max(1, Math.round(ttlMs)),
            bytes,
            maxSize,
            maxBytes,
            itemsAtOnce
          ]),
        () => 1
      )
      if (kept === 0) warn(`it would displace more than ${itemsAtOnce} other responses at once`)
    },
    async invalidate (tenant, tables) {
      const scoped = tables.flatMap(({ table, scoped }) => scoped ? [table] : [])
      const others = tables.flatMap(({ table, scoped }) => scoped ? [] : [table])
      await Promise.all([
        ...scoped.length > 0 ? [forget(stampsOf(tenant), scoped.map(fieldOf))] : [],
        ...others.length > 0 ? [forget(sharedStamps, others.map(fieldOf))] : []
      ])
    },
    delete: (tenant, key) => ask(async (client) => await dropScript(client, [], [`${tenant}:${key}`]) === 1, () => false),
    async clear (tenant) {
      await connection.run(async (client) => {
        await client.unlink(stampsOf(tenant))
      }, () => remember(stampsOf(tenant), ['']))
      return empty(tenant)
    },
    async keys (tenant, limit = 1000) {
      const found: string[] = []
      for (let from = 0; found.length < limit; from += itemsAtOnce) {
        const keys = await ask(
          async (client) => itemsOf(await keysScript(client, [orderOf(tenant)], [tenant, from, from + itemsAtOnce - 1]), String),
          () => []
        )
        found.push(...keys.slice(1))
        if (Number(keys[0] ?? 0) < itemsAtOnce) break
      }
      return found.slice(0, limit)
    },
    async stats (tenant) {
      let held: readonly number[] = []
      for (let call = 0; call < maxSweeps; call++) {
        held = await ask(async (client) => itemsOf(await statsScript(client, [], [orderOf(tenant), tenant, itemsAtOnce]), Number), () => [])
        if ((held[0] ?? 0) < itemsAtOnce) break
      }
      return { items: held[1] ?? 0, bytes: held[2] ?? 0, ...counts.of(tenant) }
    },
    async ping (timeoutMs) {
      const reached = Promise.resolve(connection.run(async (client) => {
        await client.ping()
      }, () => {
        throw new Error('Redis cannot be used')
      }))
      if (!await settlesWithin(reached, timeoutMs)) throw new Error(`Redis did not reply within ${timeoutMs} ms`)
    },
    close () {
      isClosed = true
      clearTimeout(timer)
      connection.close()
    }
  }
}

const itemOf = (tenant: string, key: string): string => `${prefix}${tenant}:item:${key}`
const orderOf = (tenant: string): string => `${prefix}${tenant}:order`
const stampsOf = (tenant: string): string => `${prefix}${tenant}:stamps`
/** Tables without tenants; the platform's own part of tables is separate. */
const sharedStamps = `${prefix}*:tables`
const noItem = `${prefix}*:none`

/** The empty field is the tenant itself. */
const fieldOf = (table: string): string => `t${table}`

const noFields = [0, '']

/** The number of the tenant's; the tenant itself; those; the others. Created once for the tables of a route. */
const fieldsOf = oncePerObject((reads: readonly TableUse[]): (string | number)[] => {
  const scoped = reads.filter((read) => read.scoped)
  return [scoped.length, '', ...[...scoped, ...reads.filter((read) => !read.scoped)].map(({ table }) => fieldOf(table))]
})

function bytesOf (tenant: string, key: string, value: string): number {
  return Math.ceil(bytesPerItem + keysPerItem * (Buffer.byteLength(key) + tenant.length) + bytesPerByte * Buffer.byteLength(value))
}

function itemsOf<Item> (reply: unknown, read: (item: unknown) => Item): Item[] {
  return Array.isArray(reply) ? reply.map(read) : []
}
