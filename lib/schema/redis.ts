/** The address of Redis. */
import { Type } from 'typebox'
import { ClosedObject } from './annotations.js'

export const RedisServer = (description: string) =>
  Type.Optional(ClosedObject({
    url: Type.String({
      pattern: '^rediss?://[^/?#\\s]+(/\\d*)?$',
      expected: '`redis://user:password@host:port/database`',
      description: 'The URL, `redis://user:password@host:port/database`; `rediss://` with TLS.'
    })
  }, { description }))
