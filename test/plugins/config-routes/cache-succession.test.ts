/** Cached responses of a tenant that was deleted while no process of the store heard of it. */
import type { FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import { type Test, test } from 'tap'
import { atOnce } from '../../helpers/at-once.js'
import { postgresSection } from '../../helpers/postgres.js'
import { type TestDocument, testServer } from '../../helpers/server.js'
import { missSuccession } from '../../helpers/succession.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { type Ask, caller } from '../../http/caller.js'
import { redisSection } from '../cache/stores.js'

const document = {
  tables: { notes: { tenantScoped: true, columns: { id: { type: 'integer', primaryKey: true }, title: { type: 'text' } } } },
  routes: [
    {
      method: 'get',
      path: '/notes',
      requireAuth: true,
      cache: { enabled: true, ttl: 600 },
      queries: [{ table: 'notes', operation: 'select' }]
    },
    { method: 'post', path: '/notes', requireAuth: true, queries: [{ table: 'notes', operation: 'insert' }] }
  ]
} satisfies TestDocument

function as (t: Test, app: FastifyInstance, claims: object = {}): Ask {
  return caller(t, app, { token: signToken({ sub: 'u', tenant_id: 'acme', ...claims }) })
}

/** HIT or MISS, and the rows. */
async function look (ask: Ask): Promise<[unknown, unknown]> {
  const { headers, body } = await ask('GET /notes')
  return [headers['x-cache'], body.data]
}

async function isKept (ask: Ask): Promise<boolean> {
  const [state] = await look(ask)
  return state === 'HIT'
}

const note = { id: 1, title: 'of the earlier tenant' }

// Most of the time is spent on starts.
test('a tenant gets no cached response of an earlier tenant with its id', (t) =>
  atOnce(t, {
    'from a Redis that missed the deletion': afterLostRemoval,
    'from an LMDB file whose servers were stopped': afterStop
  }))

async function afterLostRemoval (t: Test): Promise<void> {
  const { cache } = await redisSection(t)
  const app = await testServer(t, { ...document, cache }, { engine: await postgresSection(t), tenants: ['acme'] })
  const ask = as(t, app)
  t.match(await ask('POST /notes', { body: note }), { status: 201 })
  await until('the response is stored', () => isKept(ask))
  await sql`delete from notes`.execute(app.db)
  await missSuccession(app, 'acme')
  t.same(await look(ask), ['MISS', []])
}

async function afterStop (t: Test): Promise<void> {
  const engine = await postgresSection(t)
  const cache = { enabled: true, provider: 'lmdb', lmdb: { dbPath: t.testdir({}) } } as const
  const first = await testServer(t, document, { engine, tenants: ['acme'] })
  const stopped = await testServer(t, { ...document, cache }, { engine })
  t.match(await as(t, first)('POST /notes', { body: note }), { status: 201 })
  await until('the response is stored', () => isKept(as(t, stopped)))
  await stopped.close()
  await first.tenants.delete('acme')
  await first.tenants.create({ id: 'acme', name: 'another' })
  const started = await testServer(t, { ...document, cache }, { engine })
  // A token of the second of the deletion counts as older.
  t.same(await look(as(t, started, { iat: Math.floor(Date.now() / 1000) + 1 })), ['MISS', []])
}
