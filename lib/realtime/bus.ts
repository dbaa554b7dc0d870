/** Sends the events of rooms to the other processes. There are two adapters: PostgreSQL and Redis. */
import type { Owner } from '../identity/tenant-ref.js'

export type RoomEvent =
  & (
    /** A message in its final form for the receivers, as JSON. */
    | { readonly kind: 'message', readonly room: string, readonly text: string }
    /** A member joined, left, or changed its state. */
    | { readonly kind: 'presence', readonly room: string }
  )
  & {
    /** The sending process and its count of events; set if an event may arrive twice, over different paths. */
    readonly mark?: readonly [from: string, number: number]
  }

export type RoomListener = (tenant: Owner, event: RoomEvent) => void

/**
 * Events of one process arrive in order at each other process, at most once, and never at the process itself. The tenant is never
 * empty, and a tenant's event never arrives under another tenant.
 */
export interface RoomBus {
  /** Opens the bus. Resolves when it is ready, or after a failed attempt. */
  open(): Promise<void>
  /** Starts to receive events of other processes. Before this call the process does not look for any. */
  hear(): Promise<void>
  /** Stops receiving events of other processes. */
  rest(): void
  send(tenant: Owner, event: RoomEvent): void
  /** Closes the bus after its events have been sent, or have failed. */
  close(): Promise<void>
}

const maxWaitingBytes = 16_777_216 // of events that wait to be sent

/** Events that wait to be sent, in order. Events beyond the limit are lost. */
export class Outgoing {
  #events: (readonly [tenant: Owner, event: RoomEvent])[] = []
  #bytes = 0

  /** Returns false if there is no room for the event. */
  add (tenant: Owner, event: RoomEvent): boolean {
    const bytes = event.kind === 'message' ? event.text.length : 0
    if (this.#bytes + bytes > maxWaitingBytes) return false
    this.#bytes += bytes
    this.#events.push([tenant, event])
    return true
  }

  get isEmpty (): boolean {
    return this.#events.length === 0
  }

  /** Removes and returns all events by tenant, in order. */
  take (): ReadonlyMap<string, readonly RoomEvent[]> {
    const byTenant = new Map<string, RoomEvent[]>()
    for (const [tenant, event] of this.#events) {
      const known = byTenant.get(tenant)
      if (known === undefined) byTenant.set(tenant, [event])
      else known.push(event)
    }
    this.#events = []
    this.#bytes = 0
    return byTenant
  }
}
