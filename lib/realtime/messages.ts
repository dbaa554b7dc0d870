/** The schemas of realtime messages, from clients and from the server. */
import { Type, type Static } from 'typebox'
import { changeActions } from '../schema/realtime.js'

export const maxFilterColumns = 10
export const maxRefLength = 128
export const maxStateBytes = 1024

const ref = Type.Union([Type.String({ maxLength: maxRefLength }), Type.Integer()], {
  description: 'Comes back in the response to this message.'
})
const optionalRef = Type.Optional(ref)
const position = Type.Integer({ description: 'Grows with every change of the tenant.' })
const watchId = Type.String({ maxLength: 64, description: 'The watch, as its `ack` names it.' })
const room = Type.String({
  pattern: '^[\\w.:@/-]{1,128}$',
  expected: '1 to 128 of A-Z a-z 0-9 _ . : @ / -',
  description: 'The name of a room.'
})
const event = Type.String({ minLength: 1, maxLength: 128, description: 'The name of an event, which the sender chooses.' })
const json = Type.Unknown({ description: 'Any JSON.' })
const closed = { additionalProperties: false }

export const Auth = Type.Object({
  type: Type.Literal('auth'),
  token: Type.String({ minLength: 1, maxLength: 16_384, description: 'A token or an API key.' }),
  ref: optionalRef
}, closed)
export const Watch = Type.Object({
  type: Type.Literal('watch'),
  table: Type.String({ minLength: 1, maxLength: 63 }),
  id: Type.Optional(Type.Unknown({ description: 'The key of one row: its value, or an object of its columns.' })),
  filter: Type.Optional(
    Type.Record(Type.String({ maxLength: 63 }), Type.Unknown(), {
      maxProperties: maxFilterColumns,
      description: 'Columns and their values, all of which a row must have.'
    })
  ),
  since: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'The position of the last change that the client has: later ones are sent first.'
    })
  ),
  ref: optionalRef
}, closed)
export const Unwatch = Type.Object({ type: Type.Literal('unwatch'), watch: watchId, ref: optionalRef }, closed)
export const Join = Type.Object({
  type: Type.Literal('join'),
  room,
  state: Type.Optional(Type.Unknown({ description: `What the other members see of this one, at most ${maxStateBytes} bytes of JSON.` })),
  ref: optionalRef
}, closed)
export const Leave = Type.Object({ type: Type.Literal('leave'), room, ref: optionalRef }, closed)
export const RoomMessage = Type.Object(
  { type: Type.Literal('message'), room, event: Type.Optional(event), data: json, ref: optionalRef },
  closed
)
export const Ping = Type.Object({ type: Type.Literal('ping'), ref: optionalRef }, closed)

/** Messages of clients, by `type`. */
export const clientMessages = {
  auth: Auth,
  watch: Watch,
  unwatch: Unwatch,
  join: Join,
  leave: Leave,
  message: RoomMessage,
  ping: Ping
} as const

export type ClientMessage = Static<typeof clientMessages[keyof typeof clientMessages]>
export type WatchMessage = Static<typeof Watch>
export type Ref = Static<typeof ref>

/** Messages of the server, by `type`. */
export const serverMessages = {
  ready: Type.Object({ type: Type.Literal('ready'), connectionId: Type.String({ format: 'uuid' }) }),
  ack: Type.Object({ type: Type.Literal('ack'), ref: optionalRef, watch: Type.Optional(watchId), position: Type.Optional(position) }),
  error: Type.Object({
    type: Type.Literal('error'),
    ref: optionalRef,
    status: Type.Integer({ description: 'As of an HTTP response.' }),
    code: Type.String({ description: 'As of an HTTP error.' }),
    message: Type.String(),
    upgrade: Type.Optional(Type.Unknown({ description: 'The lowest plan that has room; null where none has.' }))
  }),
  change: Type.Object({
    type: Type.Literal('change'),
    watch: watchId,
    table: Type.String(),
    action: Type.Enum([...changeActions]),
    id: Type.Unknown({ description: 'The key of the row; an object where it has several columns.' }),
    record: Type.Unknown({ description: 'The row after the change; null for `deleted` and `left`.' }),
    truncated: Type.Optional(Type.Literal(true, { description: 'The row has more than 256 KB: its long columns are missing.' })),
    position
  }),
  gap: Type.Object({ type: Type.Literal('gap'), watch: watchId, position }, {
    description: 'Changes since the given position are not kept any more: read the rows again.'
  }),
  message: Type.Object({
    type: Type.Literal('message'),
    room,
    event: Type.Optional(event),
    data: json,
    from: Type.Union([Type.String({ format: 'uuid' }), Type.Null()], { description: 'The connection that sent it; null for the server.' })
  }),
  presence: Type.Object({
    type: Type.Literal('presence'),
    room,
    members: Type.Array(Type.Object({ id: Type.String({ format: 'uuid' }), state: Type.Unknown() }))
  }),
  pong: Type.Object({ type: Type.Literal('pong'), ref: optionalRef })
} as const

/** A message of the server, discriminated by `type`. */
export type ServerMessage = Static<typeof serverMessages[keyof typeof serverMessages]>
