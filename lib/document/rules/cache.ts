/** Checks of the section `cache` beyond its schema: the sections of the provider. */
import type { Static } from 'typebox'
import type { FaultList } from '../../schema/faults.js'
import type { CacheStore } from '../../schema/cache.js'

const needs = {
  redis: { member: 'url', expected: 'the URL of Redis, such as `redis://127.0.0.1:6379`' },
  lmdb: { member: 'dbPath', expected: 'the folder of the file' }
} as const

export function checkCache (cache: Static<typeof CacheStore>, faults: FaultList): void {
  for (const name of ['redis', 'lmdb'] as const) {
    const { member, expected } = needs[name]
    const section = cache[name]
    if (cache.provider === name && section === undefined) faults.add(`/cache/${name}/${member}`, `missing: expected ${expected}`)
    if (cache.provider !== name && section !== undefined) {
      faults.add(`/cache/${name}`, `is not used: the \`provider\` is "${cache.provider}"`)
    }
  }
}
