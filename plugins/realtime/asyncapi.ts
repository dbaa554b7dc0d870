/** `GET /doc/realtime`: the messages as an AsyncAPI 3 document. */
import { notWatched, withNote } from '../../lib/firestore/unsupported.js'
import { clientMessages, serverMessages } from '../../lib/realtime/messages.js'
import { version } from '../../lib/version.js'

/** The action of the server for each message. */
const operations = [
  ...Object.entries(clientMessages).map(([name, payload]) => ({ action: 'receive', key: `client.${name}`, name, payload })),
  ...Object.entries(serverMessages).map(([name, payload]) => ({ action: 'send', key: `server.${name}`, name, payload }))
]

/** @param app if it has documents in Firestore, the description says that they cannot be watched */
export function asyncApi (address: string, app: { readonly firestore: object | null }): object {
  return {
    asyncapi: '3.0.0',
    info: {
      title: 'Realtime',
      version,
      description: withNote(
        'Messages about changes of rows, rooms and presence over a websocket. `GET /realtime/events` sends the same messages as server-sent events.',
        notWatched,
        app
      )
    },
    defaultContentType: 'application/json',
    channels: {
      realtime: {
        address,
        description:
          'Close codes: 1009 message too large, 1012 server stopping (the reason is `{"retryAfterMs": n}`), 4401 not authenticated, 4402 plan limit reached, 4403 origin or tenant rejected, 4408 messages not read, 4429 too many messages.',
        messages: Object.fromEntries(operations.map(({ key }) => [key, { $ref: `#/components/messages/${key}` }]))
      }
    },
    operations: Object.fromEntries(operations.map(({ action, key, name }) => [`${action}.${name}`, {
      action,
      channel: { $ref: '#/channels/realtime' },
      messages: [{ $ref: `#/channels/realtime/messages/${key}` }]
    }])),
    components: {
      messages: Object.fromEntries(operations.map(({ key, name, payload }) => [key, { name, payload }])),
      securitySchemes: { token: { type: 'http', scheme: 'bearer' }, apiKey: { type: 'httpApiKey', name: 'x-api-key', in: 'header' } }
    }
  }
}
