/** One suite for all vector stores: pgvector on both engines, exact and with its index, and Qdrant. */
import { randomUUID } from 'node:crypto'
import type { Test } from 'tap'
import { test } from 'tap'
import type { Engine } from '../../../lib/database/engine.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { ExactNumber } from '../../../lib/json/exact-number.js'
import { openVectorStore } from '../../../lib/vectors/open.js'
import type { DocumentInput, VectorQuery, VectorStore } from '../../../lib/vectors/types.js'
import { pgvectorDatabase } from '../../helpers/pgvector.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { qdrantServer } from '../../helpers/qdrant.js'
import { openEngine, run } from '../database/open.js'

const dimensions = 8

interface Opened {
  readonly engine: Engine
  readonly store: VectorStore
  /** Another store of another space, on the same database. */
  readonly other: (model: string) => Promise<VectorStore>
}

const warn = (error: unknown) => {
  throw error
}

async function onPgvector (engine: Engine, exactUpTo?: number): Promise<Opened> {
  const open = (model: string) =>
    openVectorStore({ engine, section: { provider: 'pgvector' }, space: { model, dimensions }, warn, exactUpTo })
  return { engine, store: await open('a-model'), other: open }
}

async function onPostgres (t: Test, exactUpTo?: number): Promise<Opened> {
  const { connectionString } = await pgvectorDatabase(t)
  return await onPgvector(await openEngine(t, { postgres: { connectionString }, migrate: 'auto', vectorTable: { dimensions } }), exactUpTo)
}

const stores: Readonly<Record<string, (t: Test) => Promise<Opened>>> = {
  'pgvector, embedded': async (t) => await onPgvector(await openEngine(t, { provider: 'embedded', vectorTable: { dimensions } })),
  'pgvector, PostgreSQL, exact': (t) => onPostgres(t),
  'pgvector, PostgreSQL, by the index': (t) => onPostgres(t, 0),
  qdrant: async (t) => {
    const { connectionString } = await postgresDatabase(t)
    const engine = await openEngine(t, { postgres: { connectionString } })
    const { url, apiKey } = await qdrantServer(t)
    const open = (model: string) =>
      openVectorStore({ engine, section: { provider: 'qdrant', url, apiKey }, space: { model, dimensions }, warn })
    return { engine, store: await open('a-model'), other: open }
  }
}

/** A direction between the first two axes, in quarter turns. */
function at (turn: number): number[] {
  return [Math.cos(turn * Math.PI / 2), Math.sin(turn * Math.PI / 2), 0, 0, 0, 0, 0, 0]
}

function documentOf (id: string, contents: Readonly<Record<string, number>>, metadata: Record<string, unknown> = {}): DocumentInput {
  const chunks = Object.entries(contents).map(([content, turn], position) => ({ position, content, embedding: at(turn) }))
  return { id, contentType: 'text/plain', metadata, chunks }
}

const all = { limit: 10, filter: {} }

for (const [name, open] of Object.entries(stores)) {
  test(name, async (t) => {
    const { engine, store, other } = await open(t)
    const [acme, globex] = ['acme', 'globex']
    await run(engine, `insert into tenantry.tenants (id, name) values ('${acme}', 'A'), ('${globex}', 'G')`)
    const idsOf = async (tenant: string, turn: number, query: object = {}) =>
      (await store.byVector(tenantRef(tenant), at(turn), { ...all, ...query })).map(({ id, chunk }) => `${id}/${chunk}`)

    await t.test("finds a tenant's nearest chunks, and none of another tenant", async (t) => {
      t.equal(await store.put(tenantRef(acme), documentOf('a', { north: 1, east: 0 }, { kind: 'map' })), 'new')
      t.equal(await store.put(tenantRef(acme), documentOf('b', { northeast: 0.5 })), 'new')
      t.equal(await store.put(tenantRef(globex), documentOf('a', { 'the north of globex': 1 })), 'new')
      const found = await store.byVector(tenantRef(acme), at(1), all)
      t.same(found.map(({ id, chunk, content }) => ({ id, chunk, content })), [
        { id: 'a', chunk: 0, content: 'north' },
        { id: 'b', chunk: 0, content: 'northeast' },
        { id: 'a', chunk: 1, content: 'east' }
      ])
      t.same(found.map(({ score }) => Math.round(score * 1000)), [1000, 707, 0])
      t.same(found[0]?.metadata, { kind: 'map' })
      t.same(await idsOf(globex, 1), ['a/0'])
      t.same(await idsOf('stranger', 1), [])
    })

    await t.test('respects the limit and the threshold', async (t) => {
      t.same(await idsOf(acme, 1, { limit: 1 }), ['a/0'])
      t.same(await idsOf(acme, 1, { threshold: 0.7 }), ['a/0', 'b/0'])
      t.same(await idsOf(acme, 2.5, { threshold: 0 }), [], 'opposite directions have a score below 0')
    })

    await t.test('filters by members of the metadata', async (t) => {
      const metadata = { kind: 'map', pages: 3, rate: 1.5, done: true, nothing: null, list: ['map'], 'a.b"] or 1=1': 'odd' }
      await store.put(tenantRef(acme), documentOf('c', { south: 3 }, metadata))
      for (const [name, value] of Object.entries({ ...metadata, list: undefined })) {
        if (value === undefined || name === 'kind') continue
        t.same(await idsOf(acme, 1, { filter: { [name]: value } }), ['c/0'], name)
        t.same(await idsOf(acme, 1, { filter: { [name]: 'another' } }), [], name)
        t.same((await store.byText(tenantRef(acme), 'south', { ...all, filter: { [name]: value } })).map(({ id }) => id), ['c'], name)
      }
      t.same(await idsOf(acme, 1, { filter: { kind: 'map' } }), ['a/0', 'a/1', 'c/0'])
      t.same(await idsOf(acme, 1, { filter: { kind: 'map', pages: 3 } }), ['c/0'], 'all members must match')
      t.same(await idsOf(acme, 1, { filter: { tenant: 'globex' } }), [], 'no filter selects another tenant')
      t.same(await idsOf(acme, 1, { filter: { list: 'map' } }), [], 'a list does not equal its item')
      t.ok(await store.remove(tenantRef(acme), 'c'))
    })

    await t.test('filters by every digit of numbers', async (t) => {
      const metadata = { order: 123456789012345678901n, price: new ExactNumber('0.12345678901234567890'), power: 2n ** 53n }
      await store.put(tenantRef(acme), documentOf('n', { south: 3 }, metadata))
      const found = async (filter: VectorQuery['filter']) => {
        const query = { ...all, filter }
        const lists = [await store.byVector(tenantRef(acme), at(1), query), await store.byText(tenantRef(acme), 'south', query)]
        return lists.map((list) => list.map(({ id }) => id))
      }
      for (const [name, value] of Object.entries(metadata)) t.same(await found({ [name]: value }), [['n'], ['n']], name)
      t.same(await found({ price: new ExactNumber('0.1234567890123456789') }), [['n'], ['n']], 'an equal number')
      t.same(await found({ power: 9007199254740992 }), [['n'], ['n']], 'an equal double')
      t.same(await found({ order: 123456789012345678902n }), [[], []])
      t.same(await found({ order: 123456789012345680000 }), [[], []])
      t.same(await found({ price: 0.12345678901234568 }), [[], []])
      t.ok(await store.remove(tenantRef(acme), 'n'))
    })

    await t.test('finds words with web search syntax', async (t) => {
      const words = async (tenant: string, text: string) =>
        (await store.byText(tenantRef(tenant), text, all)).map(({ id, content }) => `${id}: ${content}`)
      t.same(await words(acme, 'NORTH'), ['a: north'])
      t.same(await words(acme, 'north or east'), ['a: north', 'a: east'], 'either')
      t.same(await words(acme, 'globex'), [], 'no words of another tenant')
      t.same(await words(globex, '"north of"'), ['a: the north of globex'])
      t.same(await words(globex, 'north -globex'), [])
      for (const text of ['', '!!!', "' globex'", "a' | ' globex", '\\', '()&|!:*<->', '-'.repeat(100)]) {
        t.same(await words(acme, text), [], text)
      }
      const [first] = await store.byText(tenantRef(acme), 'north', all)
      t.ok(first !== undefined && first.score > 0 && first.score < 1)
      t.same(await store.byText(tenantRef(acme), 'north', { ...all, threshold: 0.99 }), [])
    })

    await t.test('bounds the words of a search, and the chunks that it ranks', async (t) => {
      const chunks = Object.fromEntries(Array.from({ length: 800 }, (_item, number) => [`page ${number}`, 0]))
      await store.put(tenantRef(acme), documentOf('book', chunks))
      const count = async (text: string) => (await store.byText(tenantRef(acme), text, { limit: 1000, filter: {} })).length
      t.equal(await count('page'), 800)
      t.equal(await count('page missing'), 0)
      t.equal(await count(`${'page '.repeat(100)} missing`), 800, 'the 101st word is ignored')
      const some = await count(`page ${'-x '.repeat(1000)}`)
      t.ok(some > 100 && some < 800, `${some} chunks`)
      t.ok(await store.remove(tenantRef(acme), 'book'))
    })

    await t.test("lists a tenant's documents, the newest first", async (t) => {
      const { data, total } = await store.list(tenantRef(acme), { limit: 1, offset: 0 })
      t.equal(total, 2)
      t.match(data, [{ id: 'b', contentType: 'text/plain', chunks: 1, createdAt: Date }])
      t.strictSame(data.map(({ metadata }) => metadata), [{}])
      t.same((await store.list(tenantRef(acme), { limit: 10, offset: 1 })).data.map(({ id }) => id), ['a'])
      const [newest] = data
      t.match(await store.list(tenantRef(acme), { limit: 10, offset: 0, after: newest }), { data: [{ id: 'a' }], total: 2 })
      t.same(await store.list(tenantRef('stranger'), { limit: 10, offset: 0 }), { data: [], total: 0 })
    })

    await t.test('replaces all chunks of a document at once, and nothing if the write fails', async (t) => {
      await t.rejects(
        store.put(tenantRef(acme), documentOf('a', { lost: 1 }), {
          also: async () => {
            throw new Error('the entry cannot be written')
          }
        }),
        /entry/
      )
      t.same(await idsOf(acme, 1), ['a/0', 'b/0', 'a/1'])
      t.equal(await store.put(tenantRef(acme), documentOf('a', { west: 2 }, { kind: 'list' })), 'replaced')
      t.same((await store.byVector(tenantRef(acme), at(2), all)).map(({ content }) => content), ['west', 'northeast'])
      t.same(await store.byText(tenantRef(acme), 'north', all), [], 'the old text is gone')
      t.same(await idsOf(globex, 1), ['a/0'], "another tenant's document stays")
      const created: boolean[] = []
      await store.put(tenantRef(acme), documentOf('a', { west: 2 }), {
        also: async (_transaction, isNew) => {
          created.push(isNew)
        }
      })
      t.same(created, [false])
    })

    await t.test('replaces only the version that the caller names', async (t) => {
      const { version } = (await store.read(tenantRef(acme), 'a'))!
      t.equal(await store.put(tenantRef(acme), documentOf('a', { west: 2 }), { version: randomUUID() }), 'changed')
      t.same(await idsOf(acme, 2, { limit: 1 }), ['a/0'])
      t.equal(await store.put(tenantRef(acme), documentOf('a', { west: 2 }), { version }), 'replaced')
      t.equal(await store.put(tenantRef(acme), documentOf('gone', { west: 2 }), { version }), 'changed')
      t.equal(await store.read(tenantRef(acme), 'gone'), null)
    })

    await t.test('concurrent writes of one document leave one of them whole', async (t) => {
      const outcomes = await Promise.all(
        Array.from(
          { length: 6 },
          (_, index) =>
            store.put(tenantRef(acme), documentOf('race', Object.fromEntries(Array.from({ length: 5 }, (_, chunk) => [`race ${index}.${chunk}`, 2]))))
        )
      )
      t.same(outcomes.filter((outcome) => outcome === 'new').length, 1)
      const found = await store.byVector(tenantRef(acme), at(2), { limit: 20, filter: {} })
      const contents = found.filter(({ id }) => id === 'race').map(({ content }) => content).sort()
      t.equal(contents.length, 5)
      t.equal(new Set(contents.map((content) => content.split('.')[0])).size, 1)
      t.ok(await store.remove(tenantRef(acme), 'race'))
    })

    await t.test('vectors of another model are not compared, and their documents are stale', async (t) => {
      t.same(await store.stale(10), [])
      const later = await other('b-model')
      t.same(
        (await later.stale(10)).map(({ tenant, id, model }) => ({ tenant, id, model })).sort((one, two) =>
          `${one.tenant}${one.id}`.localeCompare(`${two.tenant}${two.id}`)
        ),
        [
          { tenant: acme, id: 'a', model: 'a-model' },
          { tenant: acme, id: 'b', model: 'a-model' },
          { tenant: globex, id: 'a', model: 'a-model' }
        ]
      )
      t.same(await later.byVector(tenantRef(acme), at(1), all), [])
      t.equal((await later.byText(tenantRef(acme), 'northeast', all)).length, 1, 'words are still found')
      const text = (await later.read(tenantRef(acme), 'b'))!
      t.same(text.contents, ['northeast'])
      t.equal(await later.put(tenantRef(acme), documentOf('b', { northeast: 0.5 }), { version: text.version }), 'replaced')
      t.equal((await later.byVector(tenantRef(acme), at(1), all)).length, 1)
      t.equal((await later.stale(10)).length, 2)
      t.equal((await store.stale(10)).length, 1)
      await store.put(tenantRef(acme), documentOf('b', { northeast: 0.5 }))
    })

    await t.test('returns the requested number of results among many chunks of other tenants', async (t) => {
      const many = (id: string, count: number, turn: (index: number) => number) =>
        store.put(
          tenantRef(id.startsWith('g') ? globex : acme),
          documentOf(id, Object.fromEntries(Array.from({ length: count }, (_, index) => [`${id} ${index}`, turn(index)])))
        )
      for (let part = 0; part < 8; part++) await many(`g${part}`, 300, (index) => 1 + index / 1e6)
      await many('few', 12, (index) => 2 + index / 100)
      const found = await idsOf(acme, 1)
      t.equal(found.length, 10)
      const nearest = ['a/0', 'b/0', ...Array.from({ length: 8 }, (_, chunk) => `few/${chunk}`)]
      // An index over all tenants' vectors is approximate.
      if (!name.endsWith('by the index')) t.same(found.sort(), nearest, "all of a small tenant's nearest chunks")
      t.equal((await idsOf(acme, 1, { filter: { kind: 'none' } })).length, 0)
    })

    await t.test('removes a document, and nothing of another tenant', async (t) => {
      t.equal(await store.remove(tenantRef(globex), 'b'), false)
      t.equal(await store.remove(tenantRef(globex), 'a'), true)
      t.equal(await store.remove(tenantRef(globex), 'a'), false)
      t.equal((await store.read(tenantRef(acme), 'a'))?.id, 'a')
      await store.removeAll(tenantRef('stranger'))
      t.ok((await idsOf(acme, 2)).includes('a/0'))
    })

    await t.test('an unknown tenant has no documents', async (t) => {
      await t.rejects(store.put(tenantRef('stranger'), documentOf('a', { north: 1 })), { code: 'TENANTRY_TENANT_UNKNOWN' })
      t.equal((await store.list(tenantRef('stranger'), { limit: 1, offset: 0 })).total, 0)
    })

    await t.test('can be checked and swept', async () => {
      await store.check()
      await store.sweep()
    })
  })
}
