/** Carries events of rooms over Redis, one publication per batch. While Redis is away, events go over PostgreSQL. */
import { createHash } from 'node:crypto'
import type { Redis } from 'ioredis'
import { type Kysely, sql } from 'kysely'
import { LRUCache } from 'lru-cache'
import { lruOptions } from '../../lib/cache/lru-options.js'
import { createWarned } from '../../lib/cache/warned.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { failure } from '../../lib/errors.js'
import { type Owner, tenantRef } from '../../lib/identity/tenant-ref.js'
import { isRecord } from '../../lib/json/plain-value.js'
import { Outgoing, type RoomBus, type RoomEvent, type RoomListener } from '../../lib/realtime/bus.js'
import { connectorTo } from '../../lib/redis/connector.js'
import { openRedis } from '../../lib/redis/redis.js'
import { eventsIn, type PostgresBusParts } from './postgres-bus.js'

const gatherMs = 5 // ms over which events become one publication
const subscribeMs = 1000 // ms for the first subscription; later, it is made in the background
const checkMs = 1000 // ms between checks of the subscription: a network may drop its packets without a sign
const returnMs = 3000 // after a failed publication or a return of Redis: the other processes may still subscribe again
const maxRemembered = 10_000 // batches whose last event is remembered; a duplicate arrives within seconds

export interface RedisBusParts extends Omit<PostgresBusParts, 'events'> {
  readonly url: string
  /** Creates the bus that carries events while Redis is away. */
  readonly fallback: (listener: RoomListener) => RoomBus
  /** Called after the connection to Redis was lost: events may be missing. */
  readonly missed: () => void
}

export async function createRedisBus (
  { url, db, instance, listener, fallback: makeFallback, missed, log }: RedisBusParts
): Promise<RoomBus> {
  const connection = await openRedis(url, log)
  const { Redis } = await import('ioredis')
  const Connector = await connectorTo(new URL(url))
  const warned = createWarned()
  const outgoing = new Outgoing((tenant) => {
    log[warned.levelOf(tenant)]({ tenant }, 'messages of rooms are lost: the tenant sends too much, or Redis is slow')
  })
  const fallback = makeFallback(deliverOnce)
  /** By batch: the last event that was received. Each path keeps the order within a batch, but a later batch may overtake it. */
  const last = new LRUCache<string, number>(lruOptions(maxRemembered))
  let batches = 0
  let channel: string | null = null
  let subscriber: Redis | null = null
  let subscribed: Promise<void> | null = null
  let isClosed = false
  let timer: NodeJS.Timeout | undefined
  let checking: NodeJS.Timeout | undefined
  let publishing: Promise<void> = Promise.resolve()
  /** Until then, events go over both paths. */
  let returnsUntil = 0

  const sendTwice = (): void => {
    returnsUntil = performance.now() + returnMs
  }
  connection.onReturn(async () => sendTwice())

  /** Drops duplicates: events are sent over the fallback too while Redis returns, and a frozen Redis may deliver its publications later. */
  function deliverOnce (tenant: Owner, event: RoomEvent): void {
    const { mark } = event
    if (mark !== undefined) {
      const [batch, number] = mark
      const key = `${batch} ${tenant}`
      if (number <= (last.get(key) ?? 0)) return
      last.set(key, number)
    }
    listener(tenant, event)
  }

  function hear (text: string): void {
    const batch: unknown = JSON.parse(text)
    if (!isRecord(batch) || batch['from'] === instance || typeof batch['tenant'] !== 'string' || typeof batch['events'] !== 'string') return
    for (const event of eventsIn(batch['events'])) deliverOnce(tenantRef(batch['tenant']), event)
  }

  /** The start of a server does not need it: the database may not be migrated yet. */
  async function findChannel (): Promise<string> {
    channel ??= await channelOf(url, db)
    return channel
  }

  async function publish (): Promise<void> {
    if (outgoing.isEmpty) return
    const target = await findChannel().catch((err: unknown) => {
      log.debug({ err }, 'events of rooms are not sent over Redis')
      return null
    })
    for (const [tenant, taken] of outgoing.take()) {
      const batch = `${instance} ${++batches}`
      const events = taken.map((event, index) => ({ ...event, mark: [batch, index + 1] as const }))
      const text = JSON.stringify({ from: instance, tenant, events: JSON.stringify(events) })
      const isSent = target !== null && await connection.run(async (client) => {
        await client.publish(target, text)
        return true
      }, () => false)
      if (!isSent) sendTwice()
      if (performance.now() < returnsUntil) { for (const event of events) fallback.send(tenant, event) }
    }
  }

  /** Ends a connection that got nothing since the last check, after the reads that wait in a busy process. The client connects again. */
  function watch (client: Redis): void {
    let checked: Redis['stream'] | null = null
    let bytes = 0
    const check = (): void => {
      const { status, stream } = client
      if (status !== 'connect' && status !== 'ready') return
      if (stream === checked && stream.bytesRead === bytes) {
        stream.destroy()
        return
      }
      checked = stream
      bytes = stream.bytesRead
      if (status === 'ready') client.ping().catch(() => {})
    }
    checking = setInterval(() => setImmediate(check), checkMs).unref()
  }

  function flush (): void {
    timer = undefined
    publishing = publishing.then(publish).then(() => {
      if (!outgoing.isEmpty) timer ??= setTimeout(flush, gatherMs)
    })
  }

  /** Resolves when events arrive, or after a failed attempt. */
  function subscribe (to: string): Promise<void> {
    const client = subscriber = new Redis(url, {
      Connector,
      autoResubscribe: false,
      maxRetriesPerRequest: null,
      retryStrategy: () => 500
    })
    client.on('error', () => {})
    client.on('message', (_channel, text) => {
      try {
        hear(text)
      } catch (err) {
        log.debug({ err }, 'an event of a room cannot be read')
      }
    })
    watch(client)
    return new Promise((resolve) => {
      setTimeout(resolve, subscribeMs).unref()
      client.once('close', () => resolve())
      client.on('ready', () => {
        client.subscribe(to).then(missed, (err: unknown) => log.debug({ err }, 'events of rooms are not received')).finally(() => resolve())
      })
    })
  }

  return {
    open: () => fallback.open(),
    async hear () {
      await fallback.hear()
      const from = await findChannel()
      if (!isClosed) await (subscribed ??= subscribe(from))
    },
    rest: () => fallback.rest(),
    send (tenant, event) {
      const isSent = outgoing.add(tenant, event)
      timer ??= setTimeout(flush, gatherMs)
      return isSent
    },
    async close () {
      isClosed = true
      do {
        clearTimeout(timer)
        flush()
        await publishing
      } while (!outgoing.isEmpty)
      clearTimeout(timer)
      clearInterval(checking)
      subscriber?.disconnect()
      connection.close()
      await fallback.close()
    }
  }
}

/**
 * The channel of all processes on this database and this database number of Redis. PostgreSQL's system identifier is no part of it: roles
 * may not be allowed to read it, and a major upgrade or another node changes it. Rejects until the database is migrated.
 */
async function channelOf (url: string, db: Kysely<SystemTables>): Promise<string> {
  // A publication reaches the clients of all database numbers.
  const number = Number(new URL(url).pathname.slice(1))
  const { rows: [row] } = await sql<{ id: string }>`
    select current_database() || ' ' || extract(epoch from applied_at) as id from tenantry.migrations order by name limit 1`.execute(db)
  if (row === undefined) throw failure('migrationPending')
  return `tenantry:realtime:${createHash('sha256').update(`${number} ${row.id}`).digest('base64url').slice(0, 22)}`
}
