/** Rooms of this process: messages and presence. Clients of this process get them at once, clients of other processes over the bus. */
import type { FastifyBaseLogger } from 'fastify'
import { createWarned } from '../../lib/cache/warned.js'
import { createYielder } from '../../lib/concurrency/event-loop-yielder.js'
import { failure, retryIn } from '../../lib/errors.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import type { Plans } from '../../lib/plans/plans.js'
import { bytesPerSecond, type RoomBus, type RoomEvent } from '../../lib/realtime/bus.js'
import { isRoomName } from '../../lib/realtime/rooms.js'
import { allowed, refusal } from '../usage/metrics.js'
import type { JoinResult, MemberStore, Place } from './member-store.js'
import type { Client, Published } from './types.js'

const maxMembers = 1000 // of one room
const maxEventLength = 128 // characters
const fewMembers = 20 // to which a text is sent at once, without a turn
const maxQueuedBytes = 4_194_304 // of texts of other processes and of the server that a room still has to send
const beatMs = 4000 // ms; a process counts as dead after 30 s without a heartbeat. A process without members sends none
const presenceMs = 20 // ms over which changes of one room become one list
const retryMs = 1000 // ms after a failure until the members of a room are read again
const memberMs = 1 // ms added for each member, so that large rooms send fewer lists

export interface RoomsParts {
  readonly store: MemberStore
  readonly bus: RoomBus
  readonly plans: Plans
  /** Whether plans limit rooms. */
  readonly isLimited: () => boolean
  /** The maximum bytes of a message that the server sends, as JSON. */
  readonly maxMessageBytes: number
  readonly log: FastifyBaseLogger
}

export type Rooms = ReturnType<typeof createRooms>

/** A text for the members of a room in this process, except one. */
interface Sending {
  readonly type: 'message' | 'presence'
  readonly text: string
  readonly except: Client | null
  readonly sent: () => void
}

interface Room extends Place {
  /** Members of this process, with their states. */
  readonly members: Map<Client, unknown>
  timer: NodeJS.Timeout | undefined
  isReading: boolean
  /** The room changed while its members were read. */
  isStale: boolean
  /** Texts in order. */
  readonly queue: Sending[]
  queuedBytes: number
  isSending: boolean
}

export function createRooms ({ store, bus, plans, isLimited, maxMessageBytes, log }: RoomsParts) {
  const rooms = new Map<string, Room>()
  const warned = createWarned()
  /** Members that have left, but may still be in the database. */
  const unremoved = new Map<string, Place & { readonly id: string }>()
  let removing: Promise<void> | null = null
  let beating: Promise<void> = Promise.resolve()
  let timer: NodeJS.Timeout | undefined
  let begun: Promise<void> | null = null
  let joining = 0

  const keyOf = ({ tenant, room }: Place): string => `${tenant} ${room}`
  const memberKey = (id: string, room: string): string => `${id} ${room}`

  function failed (tenant: Owner, err: unknown): void {
    log[warned.levelOf(tenant)]({ err, tenant }, 'a message or the members of a room could not be sent')
  }

  /** Sends after earlier texts of the room. A large room takes turns with other tenants. Resolves when the text is sent. */
  async function deliver (
    room: Room | undefined,
    { type, text, except = null }: Partial<Sending> & Pick<Sending, 'type' | 'text'>
  ): Promise<void> {
    if (room === undefined) return
    if (room.members.size <= fewMembers && !room.isSending) {
      const yielder = createYielder(room.tenant)
      yielder.begin()
      for (const client of room.members.keys()) if (client !== except) client.outlet.send(text, type)
      return yielder.done()
    }
    // A client sends its next message when this one is sent. Other senders do not wait.
    if (except === null && type === 'message' && room.queuedBytes + text.length > maxQueuedBytes) {
      return log.debug({ tenant: room.tenant }, 'a message of a room was lost: too many wait for its members')
    }
    await new Promise<void>((resolve) => {
      room.queue.push({ type, text, except, sent: resolve })
      room.queuedBytes += text.length
      if (!room.isSending) sendQueued(room).catch((err: unknown) => failed(room.tenant, err))
    })
  }

  async function sendQueued (room: Room): Promise<void> {
    room.isSending = true
    const yielder = createYielder(room.tenant)
    for (let next = room.queue.shift(); next !== undefined; next = room.queue.shift()) {
      const { type, text, except, sent } = next
      let count = 0
      for (const client of room.members.keys()) {
        if (count++ % fewMembers === 0 && yielder.shouldYield()) await yielder.yield()
        if (client !== except) client.outlet.send(text, type)
      }
      room.queuedBytes -= text.length
      sent()
    }
    yielder.done()
    room.isSending = false
  }

  /** Combines many changes into one list. */
  function announce (place: Place, pauseMs = 0): void {
    const room = rooms.get(keyOf(place))
    if (room === undefined) return
    if (room.isReading) room.isStale = true
    else room.timer ??= setTimeout(() => show(room), pauseMs + presenceMs + memberMs * room.members.size)
  }

  async function show (room: Room): Promise<void> {
    room.timer = undefined
    room.isReading = true
    room.isStale = false
    let pauseMs = 0
    try {
      const members = await store.members(room, maxMembers)
      await deliver(room, { type: 'presence', text: stringifyJson({ type: 'presence', room: room.room, members }) })
    } catch (err) {
      log.debug({ err, tenant: room.tenant }, 'the members of a room could not be read: retrying')
      room.isStale = true
      pauseMs = retryMs
    }
    room.isReading = false
    if (room.isStale && room.members.size > 0) announce(room, pauseMs)
  }

  function changed (place: Place): void {
    announce(place)
    bus.send(place.tenant, { kind: 'presence', room: place.room })
  }

  function drop (place: Place, client: Client): void {
    const room = rooms.get(keyOf(place))
    if (room === undefined) return
    room.members.delete(client)
    if (room.members.size > 0) return
    clearTimeout(room.timer)
    rooms.delete(keyOf(place))
  }

  /** Removes the member now or, if that fails, with a later heartbeat. */
  async function remove (tenant: Owner, names: readonly string[], id: string): Promise<void> {
    try {
      await store.leave(tenant, names, id)
    } catch (error) {
      for (const room of names) unremoved.set(memberKey(id, room), { tenant, room, id })
      throw error
    }
  }

  async function removeAgain (): Promise<void> {
    const left = [...unremoved]
    await store.remove(left.map(([, member]) => member))
    for (const [key, { tenant, room }] of left) {
      unremoved.delete(key)
      changed({ tenant, room })
    }
  }

  async function beat (): Promise<void> {
    const wasForgotten = await store.beat()
    if (wasForgotten) {
      const own = [...rooms.values()]
      await store.restore(
        own.flatMap(({ tenant, room, members }) => Array.from(members, ([{ id }, state]) => ({ tenant, room, id, state })))
      )
      for (const { tenant, room } of own) changed({ tenant, room })
    }
    if (unremoved.size > 0) {
      removing ??= removeAgain().finally(() => {
        removing = null
      })
      await removing
    }
    for (const place of await store.removeDead()) changed(place)
  }

  /** The first member starts the heartbeat, and the subscription to the bus. */
  function ready (): Promise<void> {
    joining++
    begun ??= Promise.all([beat(), bus.hear()]).then(() => {
      timer = setInterval(() => {
        if (rooms.size === 0 && joining === 0 && unremoved.size === 0) return rest()
        beating = beat().catch((err: unknown) => log.warn({ err }, 'the members of rooms are not stored: the database cannot be reached'))
      }, beatMs).unref()
    }, (error: unknown) => {
      begun = null
      throw error
    })
    return begun
  }

  function rest (): void {
    clearInterval(timer)
    begun = null
    bus.rest()
  }

  async function enter (client: Client, name: string, state: unknown): Promise<void> {
    await ready()
    const place = { tenant: client.identity.tenant, room: name }
    const key = memberKey(client.id, name)
    // A removal that has begun would remove the new member.
    let mayRemain = unremoved.delete(key)
    await removing?.catch(() => {})
    let joined: JoinResult | undefined
    try {
      joined = await store.join(
        { ...place, id: client.id, state },
        maxMembers,
        (tier) => isLimited() ? allowed('rooms', plans.of(tier)) : null
      )
      mayRemain ||= joined.kind === 'unsure'
    } finally {
      if (joined?.kind !== 'joined' && mayRemain && !client.rooms.has(name)) unremoved.set(key, { ...place, id: client.id })
    }
    if (joined.kind === 'unsure') throw joined.error
    if (joined.kind === 'gone') throw failure('tenantUnknown')
    if (joined.kind === 'crowded') throw failure('stateConflict', { message: `The room has the maximum of ${maxMembers} members` })
    if (joined.kind === 'full') throw refusal(plans, 'rooms', plans.of(joined.plan), joined.needed)
    if (client.isClosed) {
      await remove(place.tenant, [name], client.id)
      return
    }
    const room = rooms.get(keyOf(place)) ?? newRoom(place)
    rooms.set(keyOf(place), room)
    room.members.set(client, state)
    client.rooms.add(name)
    changed(place)
  }

  return {
    get count () {
      return rooms.size
    },

    /** Rejects with `planLimit`, `tenantUnknown`, `stateConflict`. */
    async join (client: Client, name: string, state: unknown): Promise<void> {
      try {
        await enter(client, name, state)
      } finally {
        joining--
      }
    },

    async leave (client: Client, names: readonly string[]): Promise<void> {
      const { tenant } = client.identity
      const left = names.filter((name) => client.rooms.delete(name))
      if (left.length === 0) return
      for (const room of left) drop({ tenant, room }, client)
      await remove(tenant, left, client.id)
      for (const room of left) changed({ tenant, room })
    },

    /**
     * `from`: the client that sends the message; null for the server. Resolves when the members of this process were sent the message.
     * Throws `rateLimited` for a client's message that does not reach other processes. One of the server is sent to this process only.
     */
    publish (tenant: Owner, { room, event, data }: Published, from: Client | null): Promise<void> {
      const text = stringifyJson({ type: 'message', room, event, data: data ?? null, from: from?.id ?? null })
      if (from === null) checkPublished({ room, event }, text, maxMessageBytes)
      if (!bus.send(tenant, { kind: 'message', room, text }) && from !== null) throw tooMuch()
      return deliver(rooms.get(keyOf({ tenant, room })), { type: 'message', text, except: from })
    },

    /** An event of another process. */
    hear (tenant: Owner, event: RoomEvent): void {
      const place = { tenant, room: event.room }
      if (event.kind === 'presence') announce(place)
      else deliver(rooms.get(keyOf(place)), { type: 'message', text: event.text }).catch((err: unknown) => failed(tenant, err))
    },

    /** Sends the members of all rooms again: events of other processes may be missing. */
    refresh (): void {
      for (const room of rooms.values()) announce(room)
    },

    /** Removes the members of this process, and announces it to other processes. */
    async close (): Promise<void> {
      clearInterval(timer)
      await begun?.catch(() => {})
      await beating
      for (const { timer } of rooms.values()) clearTimeout(timer)
      rooms.clear()
      if (begun === null) return
      const left = await store.retire().catch(() => [])
      for (const { tenant, room } of left) bus.send(tenant, { kind: 'presence', room })
    }
  }
}

function tooMuch (): Error {
  return failure('rateLimited', {
    message: `The tenant's clients send more than ${bytesPerSecond / 1024} KB of room messages per second: try again later`,
    ...retryIn(1)
  })
}

function newRoom (place: Place): Room {
  return { ...place, members: new Map(), timer: undefined, isReading: false, isStale: false, queue: [], queuedBytes: 0, isSending: false }
}

/** Throws `badRequest` for an invalid name or a message that is too large. */
function checkPublished ({ room, event }: Pick<Published, 'room' | 'event'>, text: string, maxBytes: number): void {
  if (!isRoomName(room)) {
    throw failure('badRequest', { message: 'This is not a valid room name: expected 1 to 128 of A-Z a-z 0-9 _ . : @ / -' })
  }
  if (event !== undefined && (event === '' || event.length > maxEventLength)) {
    throw failure('badRequest', { message: `The name of an event has ${event.length} characters: expected 1 to ${maxEventLength}` })
  }
  const bytes = Buffer.byteLength(text)
  if (bytes > maxBytes) throw failure('badRequest', { message: `The message has ${bytes} bytes: expected at most ${maxBytes}` })
}
