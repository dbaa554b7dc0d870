/** The message that a route sends to a room. */
import { Type, type Static } from 'typebox'
import { Section } from './annotations.js'

export const RouteRealtime = Section({
  room: Type.String({ text: 'request', minLength: 1, maxLength: 1000, description: 'The room, such as `chat-{{params.id}}`.' }),
  event: Type.Optional(
    Type.String({ text: 'request', minLength: 1, maxLength: 1000, description: 'The name of the event. Default: none.' })
  ),
  data: Type.Unknown({ text: 'request', description: 'The data of the message, with templates.' })
}, {
  description:
    'Sends a message to the members of a room of the tenant, after the commit, at most once. Not on `get` routes. A failed request sends nothing; a message that cannot be sent is logged.'
})
export type RouteRealtime = Static<typeof RouteRealtime>
