/** Changes of rows, rooms and presence over websockets and server-sent events. */
import { type Static, Type } from 'typebox'
import { ClosedObject, Optional } from './annotations.js'
import { RedisServer } from './redis.js'

export const changeActions = ['created', 'updated', 'deleted', 'left'] as const
export type ChangeAction = typeof changeActions[number]

const mostMessageBytes = 1_048_576

const permissions = (description: string) =>
  Optional.Array(description, Type.String({ minLength: 1, maxLength: 200 }), { minItems: 1, maxItems: 20 })

const RealtimeTable = ClosedObject({
  permissions: permissions('The permissions that a caller needs, all of them, to watch the table. Default: none.'),
  excludeFields: Optional.Array(
    'Columns that are omitted from messages and filters, including those of administrators.',
    Type.String({ minLength: 1, maxLength: 63 }),
    { minItems: 1, maxItems: 100, uniqueItems: true }
  ),
  events: Optional.Array(
    'The actions that are sent. Default: all actions.',
    Type.Enum([...changeActions]),
    { minItems: 1, maxItems: changeActions.length, uniqueItems: true }
  ),
  trigger: Type.Optional(
    Type.Literal(true, {
      description: 'Also send writes of other programs, such as manual SQL statements. Default: only writes of this server.'
    })
  )
}, { description: 'A table with `tenant_id` and a primary key whose changes can be watched.' })

export const RealtimeRoom = ClosedObject({
  join: permissions('The permissions that a caller needs, all of them, to join. Default: none.'),
  publish: permissions('The permissions that a caller needs, all of them, to send messages. Default: none.')
}, { description: 'Rooms with their own rules.' })
export type RealtimeRoom = Static<typeof RealtimeRoom>

export const Realtime = ClosedObject({
  enabled: Optional.Boolean('Enables the endpoints of realtime. Default: true.'),
  tables: Optional.Map(
    'The tables whose changes can be watched, by name. While a tenant watches a table, each write adds a row to a log. Default: none.',
    RealtimeTable,
    { default: {} }
  ),
  rooms: Optional.Map(
    'The allowed rooms, by name or by pattern such as `chat-*`. The first match applies. Default: all rooms, for all callers of the tenant.',
    RealtimeRoom
  ),
  maxMessageBytes: Optional.Integer(
    'The maximum size of a message from a client. A larger message closes the connection with 1009.',
    { minimum: 1024, maximum: mostMessageBytes, default: 65_536, unit: 'bytes' }
  ),
  maxMessagesPerSecond: Optional.Integer(
    'The maximum number of messages from one connection. More messages close it with 4429.',
    { minimum: 1, maximum: 10_000, default: 50 }
  ),
  retentionSeconds: Optional.Integer(
    'The time for which changes are kept for clients that reconnect, and for which a table is recorded after its last watch.',
    { minimum: 60, maximum: 2_592_000, default: 86_400, unit: 's' }
  ),
  redis: RedisServer(
    'The Redis that carries messages of rooms between instances, instead of PostgreSQL. It requires the package ioredis. Default: `cache.redis` if the cache is in Redis.'
  )
}, { default: {}, description: 'Realtime: changes of rows, rooms and presence.' })
export type Realtime = Static<typeof Realtime>
