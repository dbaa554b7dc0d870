/** How the server listens (DESIGN 5, `server.trustProxy`). */
import { Type, type Static } from 'typebox'
import { Section } from './annotations.js'

export const Server = Section({
  bodyLimit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_073_741_824, default: 1_048_576, unit: 'bytes', description: 'The largest request body; a larger one is answered 413.' })),
  stopDelayMs: Type.Optional(Type.Integer({ minimum: 0, maximum: 300_000, default: 0, unit: 'ms', description: 'How long a server that is told to stop (SIGTERM) still serves, while `/health` answers 503 and each answer ends its connection: longer than a proxy takes to notice. 0 where the proxy sends what is refused to another server.' })),
  trustProxy: Type.Optional(Type.Union([
    Type.Boolean(),
    Type.Integer({ minimum: 1, maximum: 100 }),
    Type.String({ minLength: 1 }),
    Type.Array(Type.String({ minLength: 1 }), { minItems: 1 })
  ], {
    default: false,
    description: 'Whose `X-Forwarded-For` tells the address of a caller: no one\'s, everyone\'s (only where nothing but the proxy reaches the server), that many proxies\', or the proxies at these addresses or CIDR ranges.'
  }))
}, { default: {}, description: 'The HTTP server.' })
export type Server = Required<Static<typeof Server>>
