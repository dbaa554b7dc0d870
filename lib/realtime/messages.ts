/** The schemas of realtime messages, from clients and from the server. */
import { type Static, Type } from 'typebox'
import { ClosedObject, Optional } from '../schema/annotations.js'
import { changeActions } from '../schema/realtime.js'

export const maxFilterColumns = 10
export const maxRefLength = 128
export const maxStateBytes = 1024

const ref = Type.Union([Type.String({ maxLength: maxRefLength }), Type.Integer()], {
  description: 'A value that is returned in the response to this message.'
})
const optionalRef = Type.Optional(ref)
const position = Type.Integer({ description: 'The position of the change, which grows with every change of the tenant.' })
const watchId = Type.String({ maxLength: 64, description: 'The id of the watch from its `ack`.' })
export const roomName = { pattern: '^[\\w.:@/-]{1,128}$', expected: '1 to 128 of A-Z a-z 0-9 _ . : @ / -' }
const room = Type.String({ ...roomName, description: 'The name of a room.' })
const event = Type.String({ minLength: 1, maxLength: 128, description: 'The name of the event, chosen by the sender.' })
const json = Type.Unknown({ description: 'Any JSON value.' })

const Watch = ClosedObject({
  type: Type.Literal('watch'),
  table: Type.String({ minLength: 1, maxLength: 63 }),
  id: Optional.Unknown('The key of one row: its value, or an object of its columns.'),
  filter: Type.Optional(
    Type.Record(Type.String({ maxLength: 63 }), Type.Unknown(), {
      maxProperties: maxFilterColumns,
      description: 'Columns with the values that a row must have.'
    })
  ),
  since: Optional.Integer(
    'The position of the last change that the client received. The stream starts with the changes after it.',
    { minimum: 0, maximum: Number.MAX_SAFE_INTEGER }
  ),
  ref: optionalRef
})

export const clientMessages = {
  auth: ClosedObject({
    type: Type.Literal('auth'),
    token: Type.String({ minLength: 1, maxLength: 16_384, description: 'A token or an API key.' }),
    ref: optionalRef
  }),
  watch: Watch,
  unwatch: ClosedObject({ type: Type.Literal('unwatch'), watch: watchId, ref: optionalRef }),
  join: ClosedObject({
    type: Type.Literal('join'),
    room,
    state: Optional.Unknown(`The state of this member shown to other members, at most ${maxStateBytes} bytes of JSON.`),
    ref: optionalRef
  }),
  leave: ClosedObject({ type: Type.Literal('leave'), room, ref: optionalRef }),
  message: ClosedObject({ type: Type.Literal('message'), room, event: Type.Optional(event), data: json, ref: optionalRef }),
  ping: ClosedObject({ type: Type.Literal('ping'), ref: optionalRef })
} as const

export type ClientMessage = Static<typeof clientMessages[keyof typeof clientMessages]>
export type WatchMessage = Static<typeof Watch>
export type Ref = Static<typeof ref>

export const serverMessages = {
  ready: Type.Object({ type: Type.Literal('ready'), connectionId: Type.String({ format: 'uuid' }) }),
  ack: Type.Object({ type: Type.Literal('ack'), ref: optionalRef, watch: Type.Optional(watchId), position: Type.Optional(position) }),
  error: Type.Object({
    type: Type.Literal('error'),
    ref: optionalRef,
    status: Type.Integer({ description: 'The status, as in an HTTP response.' }),
    code: Type.String({ description: 'The code, as in an HTTP error.' }),
    message: Type.String(),
    upgrade: Optional.Unknown('The lowest plan with a sufficient limit; null if no plan has one.'),
    retryAfter: Optional.Integer('Seconds after which the message can be sent again.')
  }),
  change: Type.Object({
    type: Type.Literal('change'),
    watch: watchId,
    table: Type.String(),
    action: Type.Enum([...changeActions]),
    id: Type.Unknown({ description: 'The key of the row; an object if the key has several columns.' }),
    record: Type.Unknown({ description: 'The row after the change; null for `deleted` and `left`.' }),
    truncated: Type.Optional(Type.Literal(true, { description: 'True if the row has more than 256 KB; its long columns are omitted.' })),
    position
  }),
  gap: Type.Object({ type: Type.Literal('gap'), watch: watchId, position }, {
    description: 'True if changes after the given position are no longer available: read the rows again.'
  }),
  message: Type.Object({
    type: Type.Literal('message'),
    room,
    event: Type.Optional(event),
    data: json,
    from: Type.Union([Type.String({ format: 'uuid' }), Type.Null()], {
      description: 'The id of the connection that sent the message; null for the server.'
    })
  }),
  presence: Type.Object({
    type: Type.Literal('presence'),
    room,
    members: Type.Array(Type.Object({ id: Type.String({ format: 'uuid' }), state: Type.Unknown() }))
  }),
  pong: Type.Object({ type: Type.Literal('pong'), ref: optionalRef })
} as const

export type ServerMessage = Static<typeof serverMessages[keyof typeof serverMessages]>
