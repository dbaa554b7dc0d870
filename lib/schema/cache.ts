/** The cache of responses. */
import { type Static, Type } from 'typebox'
import { ClosedObject, type Filled, Optional } from './annotations.js'
import { RedisServer } from './redis.js'

const mostItems = 100_000_000
const mostMemoryMB = 1_048_576

export const CacheStore = ClosedObject({
  enabled: Type.Boolean({ description: 'If false, no response is cached, even for routes with `cache`.' }),
  provider: Type.Enum(['memory', 'redis', 'lmdb'], {
    description:
      'The store of cached responses: the memory of each process, Redis for all instances, or an LMDB file for the processes of one machine.'
  }),
  ttl: Optional.Number(
    'The default time for which a response is cached.',
    { exclusiveMinimum: 0, maximum: 31_536_000, default: 60, unit: 's' }
  ),
  maxSize: Optional.Integer(
    'The maximum number of responses over all tenants. The least recently used responses are removed first, starting with tenants that exceed their share.',
    { minimum: 1, maximum: mostItems, default: 10_000 }
  ),
  maxMemoryMB: Optional.Number(
    'The maximum memory for keys and values (1 MB is 1,048,576 bytes), in the process, in Redis or in the file, which can be twice as large.',
    { exclusiveMinimum: 0, maximum: mostMemoryMB, default: 64, unit: 'MB' }
  ),
  redis: RedisServer(
    'The Redis of the provider `redis`, which requires the package ioredis. Only the instances of this server may use that database of Redis.'
  ),
  lmdb: Type.Optional(ClosedObject({
    dbPath: Type.String(
      { minLength: 1, description: 'The folder of the file, created if it is missing. It must not be on a network drive.' }
    )
  }, { description: 'The file of the provider `lmdb`, which requires the package lmdb.' }))
}, {
  default: { enabled: true, provider: 'memory' },
  description: 'The cache of responses, for routes with `cache`.'
})
export type CacheStore = Filled<Static<typeof CacheStore>, 'ttl' | 'maxSize' | 'maxMemoryMB'>
