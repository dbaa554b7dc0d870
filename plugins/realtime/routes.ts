/** The endpoints of realtime. */
import { Type } from 'typebox'
import { errorResponses } from '../../lib/http/error-schemas.js'
import { prefixOf } from '../../lib/http/prefix.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import { asyncApi } from './asyncapi.js'
import { eventStream, type StreamParts } from './event-stream.js'
import { openSockets, type SocketParts } from './sockets.js'

/** Resolves with a function that ends all websockets. */
export async function realtimeRoutes (group: FastifyGroup, parts: SocketParts & StreamParts): Promise<() => Promise<void>> {
  eventStream(group, parts)
  const document = stringifyJson(asyncApi(`${prefixOf(group)}/realtime`, group))
  group.get(
    '/doc/realtime',
    {
      config: { access: 'public' },
      schema: {
        tags: ['Realtime'],
        summary: 'Describe the messages of realtime',
        description: 'The AsyncAPI 3 document that describes the messages.',
        response: { 200: Type.Unknown({ description: 'The AsyncAPI document.' }), ...errorResponses(429, 500) }
      }
    },
    async (_request, reply) =>
      reply.header('cache-control', 'no-cache').type('application/json').serializer((text: string) => text).send(document)
  )
  return await openSockets(group, parts)
}
