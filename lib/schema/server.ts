/** The server: its port, its limits and its stop. */
import { Type, type Static } from 'typebox'
import { Section } from './annotations.js'

export const Server = Section({
  bodyLimit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 1_073_741_824,
      default: 1_048_576,
      unit: 'bytes',
      description: 'The largest request body; a larger one is answered 413.'
    })
  ),
  maxUnsentBytes: Type.Optional(Type.Integer({
    minimum: 1_048_576,
    maximum: 1_073_741_824,
    default: 67_108_864,
    unit: 'bytes',
    description:
      'Bytes of large responses that wait in memory for their readers, for each tenant, and for each address of callers without a tenant. A quarter of it for each connection, four times as much for all. Beyond it a further large response is refused with 429.'
  })),
  stopDelayMs: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 300_000,
      default: 0,
      unit: 'ms',
      description:
        'How long a server still serves after SIGTERM, while `/health` answers 503 and each answer ends its connection: longer than a proxy takes to notice. 0 where the proxy sends what is refused to another server.'
    })
  ),
  trustProxy: Type.Optional(Type.Union([
    Type.Boolean(),
    Type.Integer({ minimum: 1, maximum: 100 }),
    Type.String({ minLength: 1 }),
    Type.Array(Type.String({ minLength: 1 }), { minItems: 1 })
  ], {
    default: false,
    description:
      "Whose `X-Forwarded-For` tells the address of a caller: no one's, everyone's (only where nothing but the proxy reaches the server), that many proxies', or the proxies at these addresses or CIDR ranges."
  })),
  writeTimeoutMs: Type.Optional(
    Type.Integer({
      minimum: 100,
      maximum: 600_000,
      default: 30_000,
      unit: 'ms',
      description: 'After this time a connection that takes none of the bytes of its response is closed.'
    })
  )
}, { default: {}, description: 'The HTTP server.' })
export type Server = Required<Static<typeof Server>>
