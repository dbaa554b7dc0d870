/** Carries events of rooms over Redis, one publication per batch. While Redis is away, events go over PostgreSQL. */
import { createHash } from 'node:crypto'
import type { Redis } from 'ioredis'
import { type Kysely, sql } from 'kysely'
import { LRUCache } from 'lru-cache'
import { lruOptions } from '../../lib/cache/lru-options.js'
import { createWarned } from '../../lib/cache/warned.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { type Owner, tenantRef } from '../../lib/identity/tenant-ref.js'
import { isRecord } from '../../lib/json/plain-value.js'
import { Outgoing, type RoomBus, type RoomEvent, type RoomListener } from '../../lib/realtime/bus.js'
import { connectorTo } from '../../lib/redis/connector.js'
import { openRedis } from '../../lib/redis/redis.js'
import { eventsIn, type PostgresBusParts } from './postgres-bus.js'

const gatherMs = 5 // ms over which events become one publication
const openMs = 1000 // ms for the first subscription; later, it is made in the background
const checkMs = 1000 // ms between checks of the subscription: a network may drop its packets without a sign
const maxRemembered = 10_000 // processes, with each tenant of theirs, whose last event is remembered

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
  const warned = createWarned()
  const outgoing = new Outgoing((tenant) => {
    log[warned.levelOf(tenant)]({ tenant }, 'messages of rooms are lost: the tenant sends too much, or Redis is slow')
  })
  const fallback = makeFallback(deliverOnce)
  /** By process and tenant: the last event that was received. */
  const last = new LRUCache<string, number>(lruOptions(maxRemembered))
  let sent = 0
  let subscriber: Redis | null = null
  let channel = ''
  let timer: NodeJS.Timeout | undefined
  let checking: NodeJS.Timeout | undefined
  let publishing: Promise<void> = Promise.resolve()

  /** Drops duplicates: a frozen Redis may deliver a publication that was sent over the fallback too. */
  function deliverOnce (tenant: Owner, event: RoomEvent): void {
    const { mark } = event
    if (mark !== undefined) {
      const [from, number] = mark
      const key = `${from} ${tenant}`
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

  async function publish (): Promise<void> {
    for (const [tenant, taken] of outgoing.take()) {
      const events = taken.map((event) => ({ ...event, mark: [instance, ++sent] as const }))
      const text = JSON.stringify({ from: instance, tenant, events: JSON.stringify(events) })
      const isSent = await connection.run(async (client) => {
        await client.publish(channel, text)
        return true
      }, () => false)
      if (!isSent) { for (const event of events) fallback.send(tenant, event) }
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

  return {
    async open () {
      await fallback.open()
      channel = `tenantry:realtime:${await nameOf(db)}`
      const client = subscriber = new Redis(url, {
        Connector: await connectorTo(new URL(url)),
        autoResubscribe: false,
        maxRetriesPerRequest: null,
        retryStrategy: () => 500
      })
      subscriber.on('error', () => {})
      subscriber.on('message', (_channel, text) => {
        try {
          hear(text)
        } catch (err) {
          log.debug({ err }, 'an event of a room cannot be read')
        }
      })
      watch(client)
      await new Promise<void>((resolve) => {
        setTimeout(resolve, openMs).unref()
        client.on('ready', () => {
          client.subscribe(channel).then(() => {
            resolve()
            missed()
          }, (err: unknown) => log.debug({ err }, 'events of rooms are not received'))
        })
      })
    },
    hear: () => fallback.hear(),
    rest: () => fallback.rest(),
    send (tenant, event) {
      const isSent = outgoing.add(tenant, event)
      timer ??= setTimeout(flush, gatherMs)
      return isSent
    },
    async close () {
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

/** The channel's name, from the database: two databases that share a Redis share no rooms. */
async function nameOf (db: Kysely<SystemTables>): Promise<string> {
  const { rows: [row] } = await sql<
    { name: string }
  >`select current_database() || ' ' || coalesce(min(applied_at)::text, '') as name from tenantry.migrations`.execute(db)
  return createHash('sha256').update(row?.name ?? '').digest('base64url').slice(0, 22)
}
