import { test } from 'tap'
import { createLmdbCache } from '../../../plugins/cache/lmdb.js'
import { testCacheStore } from './conformance.js'

test('a cache in LMDB keeps the contract', async (t) => {
  let folders = 0
  const root = t.testdir({})
  testCacheStore(t, async (_t, bounds) => {
    let time = 1_000_000
    return {
      store: await createLmdbCache({ ...bounds, dbPath: `${root}/${folders++}`, warn () {}, now: () => time }),
      pass: (ms) => { time += ms }
    }
  })
})
