/** The sweep of vectors in Qdrant that no document has. */
import type { PluginTransformResultArgs } from 'kysely'
import { type Test, test } from 'tap'
import type { Engine } from '../../../lib/database/engine.js'
import { failure } from '../../../lib/errors.js'
import { type TenantRef, tenantRef } from '../../../lib/identity/tenant-ref.js'
import { hourMs } from '../../../lib/time/spans.js'
import { openVectorStore } from '../../../lib/vectors/open.js'
import { fakeClock } from '../../helpers/clock.js'
import { gate } from '../../helpers/gate.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { qdrantServer } from '../../helpers/qdrant.js'
import { openEngine, run } from '../database/open.js'

const acme = tenantRef('acme')
const documentOf = (content: string) => {
  return { id: 'a', contentType: 'text/plain', metadata: {}, chunks: [{ position: 0, content, embedding: [0, 1] }] }
}
const isDelete = (request: string) => request.endsWith('/points/delete')

/** An engine in which each statement of the tenant is refused. */
function withoutTurn (engine: Engine, busy: TenantRef, onRefusal: () => void): Engine {
  const refusing = {
    transformQuery () {
      onRefusal()
      throw failure('databaseBusy')
    },
    transformResult: async ({ result }: PluginTransformResultArgs) => result
  }
  return {
    ...engine,
    kyselyFor: (tenant) => tenant === busy ? engine.kyselyFor(tenant).withPlugin(refusing) : engine.kyselyFor(tenant)
  }
}

/** The stores of two servers. */
async function open (t: Test) {
  const { connectionString } = await postgresDatabase(t)
  const engine = await openEngine(t, { postgres: { connectionString } })
  await run(engine, "insert into tenantry.tenants (id, name) values ('acme', 'A')")
  const qdrant = await qdrantServer(t)
  const { forward, now } = fakeClock()
  const { url, apiKey } = qdrant
  const section = { provider: 'qdrant', url, apiKey } as const
  const openStore = (on: Engine = engine) => openVectorStore({ engine: on, section, space: { model: 'a-model', dimensions: 2 }, warn: () => {}, now })
  return {
    engine,
    qdrant,
    forward,
    openStore,
    store: await openStore(),
    other: await openStore(),
    left: async () => ({
      points: qdrant.collections.get('tenantry')?.points.size,
      marks: (await engine.kysely.selectFrom('tenantry.agent_stale_vectors').selectAll().execute()).length
    })
  }
}

test('vectors whose deletion is cut off are deleted by a later sweep', async (t) => {
  const { qdrant, forward, store, other, left } = await open(t)
  qdrant.fails = isDelete
  await store.put(acme, documentOf('old'))
  await store.put(acme, documentOf('new'))
  t.same(await left(), { points: 2, marks: 1 })
  const [begun, ended] = [gate(), gate()]
  qdrant.fails = async (request) => {
    if (!isDelete(request)) return false
    begun.open()
    await ended.opened
    return true
  }
  const cutOff = t.rejects(store.sweep(), { code: 'TENANTRY_VECTOR_STORE_UNAVAILABLE' })
  await begun.opened
  qdrant.fails = () => false
  const before = qdrant.requests.length
  await other.sweep()
  t.equal(qdrant.requests.length, before, 'another server does not repeat it meanwhile')
  forward(hourMs)
  await other.sweep()
  t.same(await left(), { points: 1, marks: 0 })
  t.match(await store.byVector(acme, [0, 1], { limit: 1, filter: {} }), [{ content: 'new' }])
  ended.open()
  await cutOff
  t.same(await left(), { points: 1, marks: 0 })
})

test('a tenant that has no turn in the database does not keep the vectors of the others', async (t) => {
  const { engine, qdrant, forward, store, openStore, left } = await open(t)
  await run(engine, "insert into tenantry.tenants (id, name) values ('busy', 'B')")
  const busy = tenantRef('busy')
  qdrant.fails = isDelete
  for (const tenant of [busy, acme]) for (const content of ['old', 'new']) await store.put(tenant, documentOf(content))
  t.same(await left(), { points: 4, marks: 2 })
  qdrant.fails = () => false
  forward(hourMs)
  await (await openStore(withoutTurn(engine, busy, () => {}))).sweep()
  t.same(await left(), { points: 3, marks: 1 })
  await store.sweep()
  t.same(await left(), { points: 2, marks: 0 })
})

test('many marks of a tenant without a turn do not keep the vectors of the others, and are tried once', async (t) => {
  const { engine, qdrant, forward, store, openStore, left } = await open(t)
  await run(engine, "insert into tenantry.tenants (id, name) values ('busy', 'B')")
  await run(
    engine,
    `insert into tenantry.agent_stale_vectors (tenant_id, document_id, version, due_at)
      select 'busy', 'b', gen_random_uuid(), to_timestamp(0) from generate_series(1, 101)`
  )
  qdrant.fails = isDelete
  for (const content of ['old', 'new']) await store.put(acme, documentOf(content))
  t.same(await left(), { points: 2, marks: 102 })
  qdrant.fails = () => false
  forward(hourMs)
  let refused = 0
  await (await openStore(withoutTurn(engine, tenantRef('busy'), () => refused++))).sweep()
  t.same(await left(), { points: 1, marks: 101 })
  t.equal(refused, 1)
})

test('vectors that are written after their sweep are deleted, and their document is not stored', async (t) => {
  const { qdrant, forward, store, other, left } = await open(t)
  const [begun, written] = [gate(), gate()]
  qdrant.fails = async (request) => {
    if (!request.startsWith('PUT')) return false
    begun.open()
    await written.opened
    return false
  }
  const late = t.rejects(store.put(acme, documentOf('late')), /too slowly/)
  await begun.opened
  forward(hourMs)
  await other.sweep()
  written.open()
  await late
  t.same(await left(), { points: 0, marks: 0 })
  t.equal(await store.read(acme, 'a'), null)
})
