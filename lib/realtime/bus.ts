/** Carries what happens in rooms to the other processes. Two adapters: PostgreSQL and Redis. */
import type { Owner } from '../identity/tenant-ref.js'

/** What happened in a room. */
export type RoomEvent =
  & (
    /** A message as its receivers get it, as JSON. */
    | { readonly kind: 'message', readonly room: string, readonly text: string }
    /** A member joined, left, or changed its state. */
    | { readonly kind: 'presence', readonly room: string }
  )
  & {
    /** The process that sent it and its count of events, where an event may arrive on two ways. */
    readonly mark?: readonly [from: string, number: number]
  }

export type RoomListener = (tenant: Owner, event: RoomEvent) => void

/**
 * Events of one process arrive in their order at each other process, at most once, and never at the process itself. The
 * tenant is never empty, and no event of a tenant arrives under another one.
 */
export interface RoomBus {
  /** Prepares it. Resolves when it is ready, or when that was tried. */
  open(): Promise<void>
  /** Events of others arrive from now on. Without this the process looks for none. */
  hear(): Promise<void>
  /** Events of others are not needed any more. */
  rest(): void
  send(tenant: Owner, event: RoomEvent): void
  /** Ends it, after what was sent has left, or could not. */
  close(): Promise<void>
}

const maxWaitingBytes = 16_777_216 // of events that could not leave yet

/** Events that wait to leave, in order. Those beyond the bound are lost. */
export class Outgoing {
  #events: (readonly [tenant: Owner, event: RoomEvent])[] = []
  #bytes = 0

  /** False where there was no room for it. */
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

  /** All of them by tenant, in order. */
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
