/** Types that the files of realtime share. */
import type { Claims } from '../../lib/expressions/types.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { Condition } from '../../lib/realtime/changes.js'
import type { WatchMessage } from '../../lib/realtime/messages.js'
import type { Recording } from './recorder.js'

declare module 'fastify' {
  interface FastifyInstance {
    realtime: Realtime
  }
}

/** The type of `app.realtime`. */
export interface Realtime {
  /**
   * Sends a message to the members of a tenant's room on all servers, at most once. Throws `badRequest` for an invalid name of a
   * room, and for a message over `maxMessageBytes`.
   */
  publish(tenant: string, message: Published): void
  /** Connections of this process. */
  readonly connections: number
  status(): RealtimeStatus
}

/** The counts of this process. */
export interface RealtimeStatus {
  readonly connections: number
  readonly watches: number
  /** Rooms with members of this process. */
  readonly rooms: number
  /** The transport of room messages between processes. `embedded`: there is only one process. */
  readonly bus: 'postgres' | 'redis' | 'embedded'
}

export interface Published {
  readonly room: string
  readonly event?: string | undefined
  /** A JSON value. */
  readonly data: unknown
}

/** The transport of messages to a client: a websocket or an event stream. */
export interface Outlet {
  /** `position`: that of the change, if the message is one. */
  send(text: string, type: string, position?: number): void
  /** Much is unsent. */
  readonly isBehind: boolean
  /** Resolves when little is unsent, or the connection has ended. Closes the connection of a client that reads nothing. */
  drained(): Promise<void>
  close(code: number, reason: string): void
  /** The bytes of messages, in both directions, that are not recorded yet. */
  bytes: number
}

/** The caller of a connection, and how to verify it again. */
export interface Identity {
  readonly claims: Claims
  readonly tenant: Owner
  /** The creation of the tenant: a later tenant may have its id. */
  readonly createdAt: Date
  /** Throws, or rejects, if the token or key is no longer valid. */
  verify(): Promise<Claims> | Claims
  /** Counts a watch or a join as a request. Rejects with `rateLimited`. */
  count(): Promise<void>
}

/** An open connection. */
export interface Client {
  readonly id: string
  readonly outlet: Outlet
  identity: Identity
  isClosed: boolean
  readonly watches: Map<string, Watch>
  /** Watches that are not in `watches` yet. */
  opening: number
  /** The number of watches so far, the last one's id: a number for all connections would show how many watches others have. */
  lastWatch: number
  readonly rooms: Set<string>
}

export interface WatchRequest extends Omit<WatchMessage, 'type'> {
  /** Values are texts, from a URL. */
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
  /** Whether the client still has the permissions. */
  isAllowed: boolean
  /** A live watch gets new changes; another is still being sent earlier ones. */
  isLive: boolean
  isClosed: boolean
}

export const closeCodes = {
  stopping: 1012,
  unauthenticated: 4401,
  planLimit: 4402,
  refused: 4403,
  tooSlow: 4408,
  tooManyMessages: 4429
} as const
