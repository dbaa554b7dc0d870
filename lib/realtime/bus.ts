/** Sends the events of rooms to the other processes. There are two adapters: PostgreSQL and Redis. */
import { LRUCache } from 'lru-cache'
import { lruOptions } from '../cache/lru-options.js'
import type { Owner } from '../identity/tenant-ref.js'

export type RoomEvent =
  & (
    /** A message in its final form for the receivers, as JSON. */
    | { readonly kind: 'message', readonly room: string, readonly text: string }
    /** A member joined, left, or changed its state. */
    | { readonly kind: 'presence', readonly room: string }
  )
  & {
    /** The batch of the event and its number there, from 1; set if an event may arrive twice, over different paths. */
    readonly mark?: readonly [batch: string, number: number]
  }

export type RoomListener = (tenant: Owner, event: RoomEvent) => void

/**
 * Events arrive at each other process at most once, and under their own tenant only. The tenant is never empty. They arrive in order,
 * except that an event over one path may arrive after later ones over another path.
 */
export interface RoomBus {
  /** Opens the bus. Resolves when it is ready, or after a failed attempt. */
  open(): Promise<void>
  /** Starts to receive events of other processes. Before this call the process does not look for any. */
  hear(): Promise<void>
  /** Stops receiving events of other processes. */
  rest(): void
  /** Returns false for a message that is lost, because the tenant or all tenants send too much. */
  send(tenant: Owner, event: RoomEvent): boolean
  /** Closes the bus after its events have been sent, or have failed. */
  close(): Promise<void>
}

const maxWaitingBytes = 16_777_216 // of messages of all tenants that wait to be sent
const maxBytesOfTenant = 4_194_304 // also those that a tenant can send at once after a pause
/** Bytes of a tenant's messages that a process sends in a second. */
export const bytesPerSecond = 262_144
const maxTenants = 10_000 // whose sent bytes are remembered
const maxTakenBytes = 65_536 // of a tenant's messages in one batch, without the last one

interface Line {
  readonly events: RoomEvent[]
  /** Rooms with a waiting change of presence, which also stands for later changes: receivers read the members again. */
  readonly changed: Set<string>
  bytes: number
}

/** Events that wait to be sent, those of a tenant in order. Each batch has a part of each tenant's. Messages beyond the limits are lost. */
export class Outgoing {
  readonly #lines = new Map<Owner, Line>()
  readonly #losing = new Set<Owner>()
  /** By tenant: the sent bytes beyond those per second, at a time. */
  readonly #sent = new LRUCache<Owner, { readonly bytes: number, readonly at: number }>(lruOptions(maxTenants))
  readonly #onLoss: (tenant: Owner) => void
  readonly #now: () => number
  #bytes = 0

  /**
   * `onLoss` is called for the first lost message of a tenant until its other events have been taken. `now`: a monotonic clock, in
   * milliseconds.
   */
  constructor (onLoss: (tenant: Owner) => void, now: () => number = () => performance.now()) {
    this.#onLoss = onLoss
    this.#now = now
  }

  /** Returns false for a message that is lost. */
  add (tenant: Owner, event: RoomEvent): boolean {
    const line = this.#lines.get(tenant) ?? { events: [], changed: new Set<string>(), bytes: 0 }
    if (event.kind === 'presence') {
      if (line.changed.has(event.room)) return true
      line.changed.add(event.room)
    }
    const bytes = bytesOf(event)
    const sent = bytes + this.#sentOf(tenant)
    // At most as much as remains free, so that some tenants cannot use up the room of all others.
    const most = Math.min(maxBytesOfTenant, maxWaitingBytes - this.#bytes - bytes)
    if (bytes > 0 && (sent > maxBytesOfTenant || line.bytes + bytes > most)) {
      if (!this.#losing.has(tenant)) this.#onLoss(tenant)
      this.#losing.add(tenant)
      return false
    }
    if (bytes > 0) this.#sent.set(tenant, { bytes: sent, at: this.#now() })
    this.#lines.set(tenant, line)
    line.events.push(event)
    line.bytes += bytes
    this.#bytes += bytes
    return true
  }

  #sentOf (tenant: Owner): number {
    const { bytes, at } = this.#sent.get(tenant) ?? { bytes: 0, at: 0 }
    return Math.max(0, bytes - (this.#now() - at) * bytesPerSecond / 1000)
  }

  get isEmpty (): boolean {
    return this.#lines.size === 0
  }

  /** Removes and returns the next batch, by tenant. */
  take (): ReadonlyMap<Owner, readonly RoomEvent[]> {
    const batch = new Map<Owner, readonly RoomEvent[]>()
    for (const [tenant, line] of this.#lines) {
      let bytes = 0
      let count = 0
      while (count < line.events.length && bytes < maxTakenBytes) bytes += bytesOf(line.events[count++])
      const events = line.events.splice(0, count)
      for (const { kind, room } of events) if (kind === 'presence') line.changed.delete(room)
      batch.set(tenant, events)
      line.bytes -= bytes
      this.#bytes -= bytes
      if (line.events.length === 0) this.#lines.delete(tenant)
    }
    for (const tenant of this.#losing) if (!this.#lines.has(tenant)) this.#losing.delete(tenant)
    return batch
  }
}

function bytesOf (event: RoomEvent | undefined): number {
  return event?.kind === 'message' ? Buffer.byteLength(event.text) : 0
}
