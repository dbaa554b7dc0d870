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
      description: 'The maximum size of a request body. A larger body is rejected with 413.'
    })
  ),
  maxUnsentBytes: Type.Optional(Type.Integer({
    minimum: 1_048_576,
    maximum: 1_073_741_824,
    default: 67_108_864,
    unit: 'bytes',
    description:
      'The maximum number of unread bytes of large responses in memory, for each tenant, and for each address of callers without a tenant. A file counts for 131,072 bytes while it is sent. One connection can use a quarter of it, all callers together four times as much. Beyond it, further large responses fail with 429.'
  })),
  stopDelayMs: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 300_000,
      default: 0,
      unit: 'ms',
      description:
        'The time for which the server keeps serving after SIGTERM, while `/health` responds with 503 and each response closes its connection. Set it longer than a proxy needs to notice, or to 0 if the proxy sends rejected requests to another server.'
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
      'The proxies whose `X-Forwarded-For` is trusted: none (false), all (true; only if callers cannot reach the server directly), a number of proxies, or their addresses or CIDR ranges.'
  })),
  writeTimeoutMs: Type.Optional(
    Type.Integer({
      minimum: 100,
      maximum: 600_000,
      default: 30_000,
      unit: 'ms',
      description: 'The time without progress after which a connection with an unread response is closed.'
    })
  )
}, { default: {}, description: 'The HTTP server.' })
export type Server = Required<Static<typeof Server>>
