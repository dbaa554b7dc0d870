/** Carries events of rooms over PostgreSQL. Each process writes them in batches; one notification per batch wakes the others. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyBaseLogger } from 'fastify'
import { type Kysely, sql } from 'kysely'
import { LRUCache } from 'lru-cache'
import { lruOptions } from '../../lib/cache/lru-options.js'
import { createWarned } from '../../lib/cache/warned.js'
import type { Events } from '../../lib/database/events.js'
import { silence } from '../../lib/database/joined-rooms.js'
import { createPoller } from '../../lib/database/poller.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { isRecord } from '../../lib/json/plain-value.js'
import { Outgoing, type RoomBus, type RoomEvent, type RoomListener } from '../../lib/realtime/bus.js'

const gatherMs = 10 // ms over which events become one batch; also between batches, so that a flood does not occupy the database
const idlePauseMs = 1000 // ms between reads without a notification
const keptMs = 60_000
const maxRows = 500 // of one read
const maxProcesses = 1000 // whose last batch is remembered; the batches of a process that ended are removed after some minutes

export interface PostgresBusParts {
  readonly db: Kysely<SystemTables>
  readonly events: Events
  /** The id of this process. */
  readonly instance: string
  readonly listener: RoomListener
  readonly log: FastifyBaseLogger
}

export function createPostgresBus ({ db, events, instance, listener, log }: PostgresBusParts): RoomBus {
  const warned = createWarned()
  const outgoing = new Outgoing((tenant) => {
    log[warned.levelOf(tenant)]({ tenant }, 'messages of rooms are lost: the tenant sends too much, or the database is slow')
  })
  const ending = new AbortController()
  /** By process: the last batch that was read. */
  const read = new LRUCache<string, number>(lruOptions(maxProcesses))
  let written = 0
  let timer: NodeJS.Timeout | undefined
  let writing: Promise<void> | null = null
  let stop = () => {}
  let state: 'resting' | 'beginning' | 'hearing' = 'resting'
  /** Callers of `hear`, with null or the error. */
  let begun: ((error: unknown) => void)[] = []
  const poller = createPoller({
    poll,
    signal: ending.signal,
    log,
    messages: {
      failed: 'messages of rooms do not reach this process: the database cannot be reached, is too busy, or is not migrated. Retrying',
      again: 'messages of rooms arrive again'
    }
  })

  /** One batch at a time, so that other processes see the batches in order. */
  async function write (): Promise<void> {
    while (!outgoing.isEmpty) {
      const batch = [...outgoing.take()]
      try {
        if (await hasOthers()) await insert(batch)
      } catch (error) {
        log.warn({ err: error, batches: batch.length }, 'messages of rooms did not reach the other processes')
      }
      if (!outgoing.isEmpty) await sleep(gatherMs)
    }
  }

  /** A process has a heartbeat before it hears: messages that were sent earlier are not for it. */
  async function hasOthers (): Promise<boolean> {
    const { rows } = await sql`select from tenantry.realtime_instances
      where id <> ${instance}::uuid and seen_at > clock_timestamp() - interval ${silence} limit 1`.execute(db)
    return rows.length > 0
  }

  async function insert (batch: ReadonlyArray<readonly [Owner, readonly RoomEvent[]]>): Promise<void> {
    const numbers = batch.map(() => ++written)
    await events.change({ topic: 'realtime', tenant: '' }, async (transaction) => {
      await sql`insert into tenantry.realtime_messages (tenant_id, instance_id, number, messages)
        select t.id, ${instance}::uuid, g.number, g.messages
        from unnest(${batch.map(([tenant]) => tenant)}::text[], ${numbers}::bigint[], ${
        batch.map(([, list]) => JSON.stringify(list))
      }::text[]) as g (tenant, number, messages)
        join tenantry.tenants t on t.id = g.tenant and t.status <> 'deleting'`.execute(transaction)
      await sql`delete from tenantry.realtime_messages where instance_id = ${instance}::uuid and at < clock_timestamp() - make_interval(secs => ${
        keptMs / 1000
      })`.execute(transaction)
    })
  }

  function flush (): void {
    timer = undefined
    writing ??= write().finally(() => {
      writing = null
      if (!outgoing.isEmpty) flush()
    })
  }

  async function poll (): Promise<number> {
    if (state === 'beginning') await begin()
    if (state === 'resting') return Infinity
    const { rows } = await sql<{ tenant: Owner, instance: string, number: number, messages: string }>`
      select m.tenant_id as tenant, m.instance_id as instance, m.number::float8 as number, m.messages
      from tenantry.realtime_messages m left join unnest(${[...read.keys()]}::uuid[], ${[
      ...read.values()
    ]}::bigint[]) as r (instance, number) on r.instance = m.instance_id
      where m.instance_id <> ${instance}::uuid and m.number > coalesce(r.number, 0) order by m.instance_id, m.number limit ${maxRows}::int`
      .execute(db)
    for (const { tenant, instance: from, number, messages } of rows) {
      read.set(from, number)
      for (const event of eventsIn(messages)) listener(tenant, event)
    }
    return rows.length === maxRows ? 0 : idlePauseMs
  }

  /** Starts after the batches that exist. */
  async function begin (): Promise<void> {
    try {
      const { rows } = await sql<{ instance: string, number: number }>`
        select instance_id as instance, max(number)::float8 as number from tenantry.realtime_messages group by instance_id`.execute(db)
      read.clear()
      for (const { instance: from, number } of rows) read.set(from, number)
    } catch (error) {
      endBeginning('resting', error)
      throw error
    }
    endBeginning('hearing', null)
  }

  function endBeginning (next: 'resting' | 'hearing', error: unknown): void {
    const waiting = begun
    begun = []
    state = next
    for (const settle of waiting) settle(error)
  }

  return {
    async open () {
      stop = events.on('realtime', () => poller.wake())
      poller.start()
    },
    async hear () {
      if (state === 'hearing' || ending.signal.aborted) return
      state = 'beginning'
      await new Promise<void>((resolve, reject) => {
        begun.push((error) => error === null ? resolve() : reject(error))
        poller.wake()
      })
    },
    rest () {
      if (state === 'hearing') state = 'resting'
    },
    send (tenant, event) {
      const isSent = outgoing.add(tenant, event)
      if (writing === null) timer ??= setTimeout(flush, gatherMs)
      return isSent
    },
    async close () {
      stop()
      ending.abort()
      endBeginning('resting', null)
      clearTimeout(timer)
      flush()
      await writing
      await poller.ended()
    }
  }
}

/** Only processes of this server write the events. An event of another version is skipped. */
export function eventsIn (text: string): RoomEvent[] {
  const list: unknown = JSON.parse(text)
  return Array.isArray(list) ? list.filter(isRoomEvent) : []
}

function isRoomEvent (value: unknown): value is RoomEvent {
  if (!isRecord(value) || typeof value['room'] !== 'string') return false
  return value['kind'] === 'presence' || (value['kind'] === 'message' && typeof value['text'] === 'string')
}
