/** `GET /doc/realtime`: the messages as an AsyncAPI 3 document. */
import { notWatched, withNote } from '../../lib/firestore/unsupported.js'
import { clientMessages, serverMessages } from '../../lib/realtime/messages.js'
import { version } from '../../lib/version.js'

interface Operation {
  readonly action: 'send' | 'receive'
  readonly name: string
  readonly schema: object
}

/** The action of the server for each message. */
const operations: readonly Operation[] = [
  ...Object.entries(clientMessages).map(([name, schema]) => ({ action: 'receive' as const, name, schema })),
  ...Object.entries(serverMessages).map(([name, schema]) => ({ action: 'send' as const, name, schema }))
]

const keyOf = ({ action, name }: Operation): string => `${action === 'send' ? 'server' : 'client'}.${name}`

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
        messages: Object.fromEntries(
          operations.map((operation) => [keyOf(operation), { $ref: `#/components/messages/${keyOf(operation)}` }])
        )
      }
    },
    operations: Object.fromEntries(operations.map((operation) => [`${operation.action}.${operation.name}`, {
      action: operation.action,
      channel: { $ref: '#/channels/realtime' },
      messages: [{ $ref: `#/channels/realtime/messages/${keyOf(operation)}` }]
    }])),
    components: {
      messages: Object.fromEntries(operations.map((operation) => [keyOf(operation), { name: operation.name, payload: operation.schema }])),
      securitySchemes: { token: { type: 'http', scheme: 'bearer' }, apiKey: { type: 'httpApiKey', name: 'x-api-key', in: 'header' } }
    }
  }
}
