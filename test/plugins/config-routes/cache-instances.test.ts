/** Cached responses of two processes: on one Redis with an outage, and in one LMDB file. */
import { type Test, test } from 'tap'
import { atOnce } from '../../helpers/at-once.js'
import { startInstances } from '../../helpers/instances.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import type { TestDocument } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { type Ask, remoteCaller } from '../../http/caller.js'
import { type CacheSection, redisSection } from '../cache/stores.js'

const document = {
  tables: { notes: { tenantScoped: true, columns: { id: { type: 'integer', primaryKey: true }, title: { type: 'text' } } } },
  routes: [
    {
      method: 'get',
      path: '/notes',
      requireAuth: true,
      cache: { enabled: true, ttl: 600 },
      queries: [{ table: 'notes', operation: 'select', order: { column: 'id' } }]
    },
    { method: 'post', path: '/notes', requireAuth: true, queries: [{ table: 'notes', operation: 'insert' }] }
  ]
} satisfies TestDocument

/** HIT or MISS, and the titles. */
async function look (ask: Ask): Promise<[unknown, unknown]> {
  const { status, headers, body } = await ask('GET /notes')
  return [headers['x-cache'] ?? status, body.data?.map(({ title }) => title)]
}

async function pair (t: Test, cache: CacheSection): Promise<{ one: Ask, other: Ask, globex: Ask }> {
  const { connectionString } = await postgresDatabase(t)
  const [first, second] = await startInstances(t, { ...document, cache, rateLimit: { enabled: false } }, {
    provider: 'postgres',
    postgres: { connectionString }
  })
  if (first === undefined || second === undefined) throw new Error('an instance is missing')
  const token = signToken({ sub: 'u', tenant_id: 'acme' })
  return {
    one: remoteCaller(t, first.address, { token }),
    other: remoteCaller(t, second.address, { token }),
    globex: remoteCaller(t, second.address, { token: signToken({ sub: 'u', tenant_id: 'globex' }) })
  }
}

async function shares (t: Test, { one, other, globex }: Awaited<ReturnType<typeof pair>>): Promise<void> {
  t.same(await look(one), ['MISS', []])
  await until('both instances return the same response', async () => (await look(other))[0] === 'HIT')
  t.same(await look(globex), ['MISS', []], 'no other tenant has it')
  await until('its own', async () => (await look(globex))[0] === 'HIT')
  const ofGlobex: unknown[] = []
  for (let id = 1; id <= 10; id++) {
    const [writer, reader] = id % 2 === 0 ? [one, other] : [other, one]
    t.equal((await writer('POST /notes', { body: { id, title: `note ${id}` } })).status, 201)
    const [, titles] = await look(reader)
    t.equal(Array.isArray(titles) && titles.length, id, `${id} written on one instance is read on the other at once`)
    ofGlobex.push((await look(globex))[0])
  }
  // A Redis that responds too late causes one MISS. A response that each write drops would always be a MISS.
  t.ok(ofGlobex.includes('HIT'), 'writes of one tenant keep the responses of another')
}

// Most of the time is spent on starts and awaited responses.
test('two processes share cached responses', (t) =>
  atOnce(t, {
    'two processes on one Redis': onRedis,
    'two processes on one LMDB file': onFile
  }))

async function onRedis (t: Test): Promise<void> {
  const { cache, redis } = await redisSection(t)
  const instances = await pair(t, cache)
  const { one, other } = instances
  await shares(t, instances)

  await until('a response is stored', async () => (await look(other))[0] === 'HIT')
  await redis.stop()
  for (let id = 11; id <= 13; id++) {
    t.equal((await one('POST /notes', { body: { id, title: `note ${id}` } })).status, 201)
    for (const ask of [one, other]) {
      const [state, titles] = await look(ask)
      t.same([state, Array.isArray(titles) && titles.length], ['MISS', id], 'without Redis every response is computed anew')
    }
  }
  await redis.start()
  await until('Redis is used again', async () => {
    const [state, titles] = await look(other)
    t.equal(Array.isArray(titles) && titles.length, 13)
    return state === 'HIT'
  })
  await until('by both', async () => (await look(one))[0] === 'HIT')
  t.equal((await one('POST /notes', { body: { id: 14, title: 'last' } })).status, 201)
  const [, titles] = await look(other)
  t.equal(Array.isArray(titles) && titles.length, 14)
}

async function onFile (t: Test): Promise<void> {
  await shares(t, await pair(t, { enabled: true, provider: 'lmdb', lmdb: { dbPath: t.testdir({}) } }))
}
