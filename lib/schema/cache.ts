/** The cache of answers. */
import { Type, type Static } from 'typebox'
import { Section, type Filled } from './annotations.js'
import { RedisServer } from './redis.js'

export const mostItems = 100_000_000
export const mostMemoryMB = 1_048_576

export const CacheStore = Section({
  enabled: Type.Boolean({ description: 'false: no route is cached, even if it has `cache`.' }),
  provider: Type.Enum(['memory', 'redis', 'lmdb'], {
    description: 'The store of responses: each process, Redis for all instances, or an LMDB file for the processes of a machine.'
  }),
  ttl: Type.Optional(
    Type.Number({
      exclusiveMinimum: 0,
      maximum: 31_536_000,
      default: 60,
      unit: 's',
      description: 'The time that a response is kept, unless its route sets another.'
    })
  ),
  maxSize: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: mostItems,
      default: 10_000,
      description:
        'The highest number of responses over all tenants. The least recently used go first, beginning with tenants that have more than their share.'
    })
  ),
  maxMemoryMB: Type.Optional(
    Type.Number({
      exclusiveMinimum: 0,
      maximum: mostMemoryMB,
      default: 64,
      unit: 'MB',
      description:
        'The highest memory of keys and values (1 MB is 1,048,576 bytes), in the process, in Redis or in the file, which can be twice as large.'
    })
  ),
  redis: Type.Optional(
    RedisServer(
      'For the provider `redis`, which needs the package ioredis. Only the instances of this server may use that database of Redis.'
    )
  ),
  lmdb: Type.Optional(Section({
    dbPath: Type.String({ minLength: 1, description: 'The folder of the file, created if it is missing; not on a network drive.' })
  }, { description: 'For the provider `lmdb`, which needs the package lmdb.' }))
}, {
  default: { enabled: true, provider: 'memory' },
  description: 'The cache of responses, for routes with `cache`.'
})
export type CacheStore = Filled<Static<typeof CacheStore>, 'ttl' | 'maxSize' | 'maxMemoryMB'>
