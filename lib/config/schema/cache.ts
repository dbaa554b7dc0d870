/** The cache of answers (SPEC "cache", DESIGN 3). */
import { Type, type Static } from 'typebox'
import { Choice, Planned, Section, type Filled } from './annotations.js'

export const CacheStore = Section({
  enabled: Type.Boolean({ description: 'false: no route is cached, whatever it says.' }),
  provider: Choice(['memory'], { redis: 'a cache shared by instances', lmdb: 'a cache in a file' }, {
    description: 'Where answers are kept: in each process, in Redis, or in an LMDB file.'
  }),
  ttl: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 31_536_000, default: 60, unit: 's', description: 'How long an answer is kept where its route does not say.' })),
  maxSize: Type.Optional(Type.Integer({ minimum: 1, maximum: 100_000_000, default: 10_000, description: 'Items at most; the least recently used go first.' })),
  maxMemoryMB: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 1_048_576, default: 64, unit: 'MB', description: 'Memory at most, keys and values together (1 MB is 1,048,576 bytes).' })),
  redis: Planned(Section({ url: Type.String({ description: 'The address, `redis://host:port`.' }) }, { description: 'Of the provider `redis`.' }), 'a cache shared by instances'),
  lmdb: Planned(Section({ dbPath: Type.String({ description: 'The folder of the file.' }) }, { description: 'Of the provider `lmdb`.' }), 'a cache in a file')
}, {
  default: { enabled: true, provider: 'memory' },
  description: 'The cache of answers, for routes with `cache`.'
})
export type CacheStore = Filled<Static<typeof CacheStore>, 'ttl' | 'maxSize' | 'maxMemoryMB'>
