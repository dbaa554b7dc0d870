/** The address of Redis. */
import { Type } from 'typebox'
import { Section } from './annotations.js'

export const RedisServer = (description: string) =>
  Section({
    url: Type.String({
      pattern: '^rediss?://[^/?#\\s]+(/\\d*)?$',
      expected: '`redis://user:password@host:port/database`',
      description: 'The URL, `redis://user:password@host:port/database`; `rediss://` with TLS.'
    })
  }, { description })
