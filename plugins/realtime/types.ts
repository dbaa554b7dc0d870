/** Types that the parts of realtime share. */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { Claims } from '../../lib/expressions/types.js'
import type { Condition } from '../../lib/realtime/changes.js'
import type { Ref } from '../../lib/realtime/messages.js'
import type { Recording } from './recorder.js'

declare module 'fastify' {
  interface FastifyInstance {
    realtime: Realtime
  }
}

/** What `app.realtime` is. */
export interface Realtime {
  /**
   * Sends a message to the members of a room of the tenant, on all servers, at most once. Throws `badRequest` for a name that no
   * room can have and for a message over `maxMessageBytes`.
   */
  publish(tenant: string, message: Published): void
  /** Connections of this process. */
  readonly connections: number
  status(): RealtimeStatus
}

/** What this process has. */
export interface RealtimeStatus {
  readonly connections: number
  readonly watches: number
  /** Rooms with members of this process. */
  readonly rooms: number
  /** What carries messages of rooms between processes; `embedded`: there is one process. */
  readonly bus: 'postgres' | 'redis' | 'embedded'
}

export interface Published {
  readonly room: string
  readonly event?: string | undefined
  /** JSON. */
  readonly data: unknown
}

/** Where messages to a client go: a websocket, or an event stream. */
export interface Outlet {
  /** `position` is that of a change. */
  send(text: string, type: string, position?: number): void
  /** Resolves when little is unsent, or the connection has ended. */
  drained(): Promise<void>
  close(code: number, reason: string): void
}

/** Whose connection it is, and how that is checked again. */
export interface Identity {
  readonly claims: Claims
  readonly tenant: Owner
  /** Throws, or rejects, once the token or key is not valid any more. */
  verify(): Promise<Claims> | Claims
}

/** A connection that is open. */
export interface Client {
  readonly id: string
  readonly outlet: Outlet
  identity: Identity
  isClosed: boolean
  readonly watches: Map<string, Watch>
  readonly rooms: Set<string>
}

export interface WatchRequest {
  readonly table: string
  readonly id?: unknown
  readonly filter?: Readonly<Record<string, unknown>> | undefined
  readonly since?: number | undefined
  readonly ref?: Ref | undefined
  /** Values are texts of a URL. */
  readonly isText?: boolean
}

export interface Watch {
  readonly id: string
  readonly client: Client
  readonly tenant: Owner
  readonly table: string
  readonly conditions: readonly Condition[]
  readonly permissions: readonly string[]
  readonly recording: Recording
  /** The client still holds the permissions. */
  isAllowed: boolean
  /** Live ones get changes as they come; others are being sent earlier ones. */
  isLive: boolean
  isClosed: boolean
}

/** Close codes of the protocol. */
export const closeCodes = {
  stopping: 1012,
  unauthenticated: 4401,
  planLimit: 4402,
  refused: 4403,
  tooSlow: 4408,
  tooManyMessages: 4429
} as const

export const hasEnded = (client: Client): boolean => client.isClosed
