/** The cache of answers. */
import { Type, type Static } from 'typebox'
import { Section, type Filled } from './annotations.js'
import { RedisServer } from './redis.js'

export const mostItems = 100_000_000
export const mostMemoryMB = 1_048_576

export const CacheStore = Section({
  enabled: Type.Boolean({ description: 'false: no route is cached, whatever it says.' }),
  provider: Type.Enum(['memory', 'redis', 'lmdb'], {
    description: 'Where answers are kept: in each process; in Redis, for all instances; or in an LMDB file, for the processes of a machine.'
  }),
  ttl: Type.Optional(
    Type.Number({
      exclusiveMinimum: 0,
      maximum: 31_536_000,
      default: 60,
      unit: 's',
      description: 'How long an answer is kept where its route does not say.'
    })
  ),
  maxSize: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: mostItems,
      default: 10_000,
      description:
        'Items at most, over all tenants; the least recently used go first, those of a tenant that holds more than its share before the others.'
    })
  ),
  maxMemoryMB: Type.Optional(
    Type.Number({
      exclusiveMinimum: 0,
      maximum: mostMemoryMB,
      default: 64,
      unit: 'MB',
      description:
        'Memory at most, keys and values together (1 MB is 1,048,576 bytes), in the process, in Redis or in the file, which is up to twice as long.'
    })
  ),
  redis: Type.Optional(
    RedisServer(
      'Of the provider `redis`, which needs the package ioredis. Nothing else may use that database of Redis but the instances of this server.'
    )
  ),
  lmdb: Type.Optional(Section({
    dbPath: Type.String({ minLength: 1, description: 'The folder of the file, made where it is missing; not on a network drive.' })
  }, { description: 'Of the provider `lmdb`, which needs the package lmdb.' }))
}, {
  default: { enabled: true, provider: 'memory' },
  description: 'The cache of answers, for routes with `cache`.'
})
export type CacheStore = Filled<Static<typeof CacheStore>, 'ttl' | 'maxSize' | 'maxMemoryMB'>
