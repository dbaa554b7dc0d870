import { setTimeout as wait } from 'node:timers/promises'
import { type Test, test } from 'tap'
import type { CacheBounds, CacheStore, TableUse } from '../../../lib/cache/store.js'
import { openRedis } from '../../../lib/redis/redis.js'
import { createRedisCache } from '../../../plugins/cache/redis.js'
import { atOnce } from '../../helpers/at-once.js'
import { startRedis, type TestRedis } from '../../helpers/redis.js'
import { until } from '../../helpers/until.js'
import { found, stampOf, testCacheStore } from './conformance.js'

const long = 60_000 // ms

/** Like another process: a separate log opens a separate connection. */
async function open (t: Test, redis: TestRedis, bounds: CacheBounds = {}): Promise<CacheStore> {
  const connection = await openRedis(redis.url, { info () {}, warn () {} })
  const store = createRedisCache({ connection, warn () {}, ...bounds })
  t.teardown(() => store.close())
  return store
}

// They wait for expiries and reconnects, each with its own Redis.
test('a cache in Redis fulfills the contract', (t) =>
  atOnce(t, {
    'fulfills the contract of every store': keepsTheContract,
    'instances on one Redis': shares,
    'the cache bypasses Redis during an outage': survives,
    'writes during a Redis outage are announced when it is back, even without a request': tells,
    "a write while Redis hangs drops another instance's response before the log reports Redis as back": endsReplies,
    'values restored from a snapshot, or by a failover to a replica that missed a write, are not found': forgets
  }))

async function keepsTheContract (t: Test): Promise<void> {
  const redis = await startRedis(t)
  testCacheStore(t, async (t, bounds) => {
    await redis.command('flushall')
    return {
      store: await open(t, redis, bounds),
      pass: async (ms) => {
        await wait(ms)
      }
    }
  })
}

const notes = [{ table: 'notes', scoped: true }]
const countries = [{ table: 'countries', scoped: false }]

async function make (store: CacheStore, tenant: string, key: string, value: string, reads: readonly TableUse[]): Promise<void> {
  await store.set(tenant, key, value, long, await stampOf(store.get(tenant, key, reads)))
}

async function shares (t: Test): Promise<void> {
  const redis = await startRedis(t)
  const [one, other] = [await open(t, redis), await open(t, redis)]

  await t.test('instances share values, writes and figures', async (t) => {
    await make(one, 'acme', 'k', 'v', notes)
    t.equal(await found(other.get('acme', 'k', notes)), 'v')
    await other.invalidate('acme', notes)
    t.equal(await found(one.get('acme', 'k', notes)), undefined)
    const stamp = await stampOf(one.get('acme', 'k', notes))
    await other.invalidate('acme', notes)
    await one.set('acme', 'k', 'old', long, stamp)
    t.equal(await found(one.get('acme', 'k', notes)), undefined)
    t.match(await other.stats('acme'), { items: 1 })
  })

  await t.test('no old value is found after the stamps are lost', async (t) => {
    for (const lost of ['tenantry:cache:acme:stamps', 'tenantry:cache:*:stamps', 'tenantry:cache:*:tables']) {
      await make(one, 'acme', 'k', 'v', [...notes, ...countries])
      t.equal(await found(other.get('acme', 'k', [...notes, ...countries])), 'v')
      t.equal(await redis.command('unlink', lost), 1)
      t.equal(await found(one.get('acme', 'k', [...notes, ...countries])), undefined, lost)
    }
  })

  await t.test('a value of more than 1 MB never goes through the connection that all tenants share', async (t) => {
    for (const [key, most] of [['letters', 'x'.repeat(1_048_576)], ['signs', '€'.repeat(349_525)]] as const) {
      const stamp = await stampOf(one.get('acme', key, notes))
      await one.set('acme', key, most, long, stamp)
      t.equal(await redis.command('exists', `tenantry:cache:acme:item:${key}`), 1, 'the largest one is stored')
      await one.set('acme', key, `${most}xx`, long, stamp)
      t.equal(await redis.command('exists', `tenantry:cache:acme:item:${key}`), 0, 'neither the larger one nor the earlier one')
    }
  })

  await t.test("a tenant's keys start with its id", async (t) => {
    await make(one, 'globex', 'k', 'v', notes)
    const keys = await redis.command('keys', '*')
    if (!Array.isArray(keys)) throw new Error('no list of keys')
    t.ok(keys.length > 0)
    for (const key of keys) t.match(key, /^tenantry:cache:(?:acme|globex|\*):(?:item:.*|order|stamps|expiry|sizes|totals|tables)$/)
    await one.clear('globex')
    t.same(await redis.command('keys', 'tenantry:cache:globex:*'), [])
  })

  await t.test('the cache uses no more memory than allowed', async (t) => {
    await redis.command('flushall')
    const used = async () => Number(/used_memory:(\d+)/.exec(String(await redis.command('info', 'memory')))?.[1])
    const before = await used()
    const store = await open(t, redis, { maxMemoryMB: 2 })
    for (let index = 0; index < 1500; index++) {
      await store.set(`tenant-${index % 7}`, `${'key '.repeat(index % 50)}${index}`, 'x'.repeat(index % 5000), long)
    }
    const { bytes } = await store.stats('*')
    const taken = await used() - before
    t.ok(bytes <= 2_097_152 && taken < 2_500_000, `${bytes} counted, ${taken} taken`)
  })
}

async function survives (t: Test): Promise<void> {
  const redis = await startRedis(t)
  const [one, other] = [await open(t, redis), await open(t, redis)]
  await make(one, 'acme', 'k', 'before', notes)

  await t.test('without Redis there are no values, and nothing waits or fails', async (t) => {
    await redis.stop()
    await until('it is away', async () => {
      const looked = one.get('acme', 'k', notes)
      return await found(looked) === undefined && !(looked instanceof Promise)
    })
    const first = await stampOf(one.get('acme', 'k', notes))
    t.not(await stampOf(one.get('acme', 'k', notes)), first, 'no caller joins an earlier computation: another instance may have written since')
    await one.set('acme', 'k', 'v', long, first)
    t.notOk(one.get('acme', 'k', notes) instanceof Promise)
    await one.invalidate('acme', notes)
    t.same(await one.keys('acme'), [])
    t.match(await one.stats('acme'), { items: 0 })
    t.equal(await one.clear('acme'), 0)
    t.equal(await one.delete('acme', 'k'), false)
    await t.rejects(async () => await one.ping(1000), /Redis cannot be used/, 'a health check reports that it is unreachable')
  })

  await t.test('Redis is used again after its return', async () => {
    await redis.start()
    await until('it is back', async () => {
      await make(one, 'acme', 'k', 'after', notes).catch(() => {})
      return await found(other.get('acme', 'k', notes)) === 'after'
    })
  })

  await t.test('a Redis that is out of memory stores no values and returns existing ones', async (t) => {
    await until('it is there', async () => {
      await make(one, 'acme', 'full', 'v', notes).catch(() => {})
      return await found(one.get('acme', 'full', notes)) === 'v'
    })
    await redis.command('config', 'set', 'maxmemory', 1)
    await one.set('acme', 'more', 'v', long)
    t.equal(await found(one.get('acme', 'more')), undefined)
    t.equal(await found(one.get('acme', 'full', notes)), 'v')
    await one.invalidate('acme', notes)
    await redis.command('config', 'set', 'maxmemory', 0)
    t.equal(await found(one.get('acme', 'full', notes)), undefined)
  })

  await t.test('no value is found while Redis refuses the writes that end values', async (t) => {
    await make(one, 'acme', 'kept', 'before', notes)
    t.equal(await found(other.get('acme', 'kept', notes)), 'before')
    await redis.command('config', 'set', 'min-replicas-to-write', 1)
    await one.invalidate('acme', notes)
    t.same([await found(one.get('acme', 'kept', notes)), await found(other.get('acme', 'kept', notes))], [undefined, undefined])
    await redis.command('config', 'set', 'min-replicas-to-write', 0)
    t.equal(await found(one.get('acme', 'kept', notes)), undefined)
  })
}

async function tells (t: Test): Promise<void> {
  const redis = await startRedis(t)
  const connection = await openRedis(redis.url, { info () {}, warn () {} })
  let isCut = false
  const cut = createRedisCache({
    connection: { ...connection, run: (work, fallback) => isCut ? fallback() : connection.run(work, fallback) },
    warn () {}
  })
  t.teardown(() => cut.close())
  const other = await open(t, redis)
  const values = [['acme', 'of its own', notes], ['acme', 'of nobody', countries], ['globex', 'cleared', []]] as const
  for (const [tenant, key, reads] of values) await make(other, tenant, key, 'old', reads)
  await make(other, 'initech', 'k', 'v', notes)
  isCut = true
  await cut.invalidate('acme', [...notes, ...countries])
  await cut.clear('globex')
  for (const [tenant, key, reads] of values) t.equal(await found(other.get(tenant, key, reads)), 'old', 'unchanged')
  isCut = false
  for (const [tenant, key, reads] of values) {
    await until(`${key} ends`, async () => await found(other.get(tenant, key, reads)) === undefined)
  }
  t.equal(await found(other.get('initech', 'k', notes)), 'v')

  isCut = true
  await make(other, 'acme', 'k', 'old', notes)
  for (let index = 0; index < 10_001; index++) await cut.invalidate(`tenant-${index}`, notes)
  await cut.invalidate('acme', notes)
  isCut = false
  t.equal(await found(cut.get('acme', 'k', notes)), undefined, 'more than are tracked individually, and at once for itself')
  t.equal(await found(other.get('initech', 'k', notes)), undefined, 'counts as everything')
}

async function endsReplies (t: Test): Promise<void> {
  const redis = await startRedis(t)
  let isBack = () => {}
  const back = new Promise<void>((resolve) => {
    isBack = resolve
  })
  const connection = await openRedis(redis.url, {
    info: (_, text) => {
      if (text.startsWith('Redis is back')) isBack()
    },
    warn () {}
  })
  const writer = createRedisCache({ connection, warn () {} })
  t.teardown(() => writer.close())
  const other = await open(t, redis)
  await make(other, 'acme', 'k', 'old', notes)
  await make(other, 'globex', 'k', 'kept', notes)
  redis.pause()
  t.equal(await found(writer.get('initech', 'k', notes)), undefined, 'the deadline of a command ends the connection')
  // No connection sends this command, so Redis cannot find it in a socket later.
  await writer.invalidate('acme', notes)
  redis.resume()
  await back
  t.equal(await found(other.get('acme', 'k', notes)), undefined)
  t.equal(await found(other.get('globex', 'k', notes)), 'kept', "another tenant's response stays")
}

async function forgets (t: Test): Promise<void> {
  const redis = await startRedis(t)
  const replica = await startRedis(t)
  const running = [await open(t, redis), await open(t, redis)] as const
  const isMissed = async (store: CacheStore) => {
    t.equal(await found(store.get('acme', 'k', notes)), undefined)
    t.equal(await found(store.get('acme', 'made of no table')), undefined)
  }

  await make(running[0], 'acme', 'k', 'old', notes)
  await running[0].set('acme', 'made of no table', 'old', long)
  await redis.command('save')
  await running[0].invalidate('acme', notes)
  await redis.stop()
  await redis.start()
  t.equal(await redis.command('exists', 'tenantry:cache:acme:item:k'), 1, 'the snapshot was read')
  const started = await open(t, redis)
  await isMissed(started)
  await until('those who were there before are back', async () => {
    await make(started, 'acme', 'other', 'new', notes).catch(() => {})
    return await found(running[0].get('acme', 'other', notes)) === 'new' && await found(running[1].get('acme', 'other', notes)) === 'new'
  })
  await isMissed(running[0])
  t.match(await started.stats('acme'), { items: 3 })
  await make(started, 'acme', 'k', 'old', notes)
  t.equal(await found(running[1].get('acme', 'k', notes)), 'old', 'values stored from then on are found by all')
  await started.set('acme', 'made of no table', 'old', long)
  t.match(await started.stats('acme'), { items: 3 }, 'and are counted once')

  await replica.command('replicaof', '127.0.0.1', redis.port)
  await until('the replica has the item', async () => await replica.command('exists', 'tenantry:cache:acme:item:k') === 1)
  await replica.command('replicaof', 'no', 'one')
  await started.invalidate('acme', notes)
  await isMissed(await open(t, replica))

  await redis.command('replicaof', '127.0.0.1', replica.port)
  await until(
    'the first follows the second',
    async () => String(await redis.command('info', 'replication')).includes('master_link_status:up')
  )
  t.equal(await found(running[1].get('acme', 'k', notes)), undefined, 'a replica is not used')
  await redis.command('replicaof', 'no', 'one')
  await isMissed(await open(t, redis))
}
