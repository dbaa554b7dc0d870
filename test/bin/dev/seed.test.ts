/** The seed of `tenantry dev` fills an empty database, completely or not at all. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { sql } from 'kysely'
import t from 'tap'
import { readSeed } from '../../../bin/dev/seed.js'
import { statementsOf } from '../../../bin/dev/sql-statements.js'
import { forEachEngine } from '../../helpers/postgres.js'
import { type TestDocument, testServer } from '../../helpers/server.js'

const tables: TestDocument['tables'] = {
  authors: {
    tenantScoped: true,
    columns: { id: { type: 'uuid', primaryKey: true, default: 'uuid()' }, name: { type: 'text', notNull: true } }
  },
  notes: {
    tenantScoped: true,
    columns: {
      id: { type: 'uuid', primaryKey: true, default: 'uuid()' },
      author_id: { type: 'uuid', references: 'authors.id' },
      done: { type: 'boolean', notNull: true, default: false },
      tags: { type: 'text[]' },
      size: { type: 'numeric' }
    }
  }
}
const author = 'c0a8f3f4-54c1-4a25-9b1e-51a3f7c4a001'

await forEachEngine(t, async (t, engine) => {
  const app = await testServer(t, { tables, routes: [] }, { engine })
  const folder = t.testdir({})
  const seed = async (name: string, text: string) => {
    writeFileSync(join(folder, name), text)
    return await (await readSeed(join(folder, name))).fill(app.engine)
  }
  const json = (document: object) => seed('seed.json', JSON.stringify(document))

  await t.rejects(json({ note: [] }), { message: /there is no table "note", did you mean "notes"\?$/ })
  await t.rejects(json({ notes: [{ tenant_id: 'acme', don: true }] }), {
    message: /\/notes\/0: the table "notes" has no column "don", did you mean "done"\?$/
  })
  await t.rejects(json({ notes: [{ done: true }] }), { message: /a row of "notes" belongs to a tenant: add "tenant_id"$/ })
  await t.rejects(json({ authors: [{ tenant_id: 'acme', name: 'Ada' }], notes: [{ tenant_id: 'acme', size: 'large' }] }), {
    message: /seed\.json: \/notes\/0: .*size|numeric/
  })
  await t.rejects(seed('seed.sql', "insert into authors (tenant_id, name) values ('acme', 'Ada');\n\nselect * from nothing"), {
    message: /seed\.sql:3: .*nothing/
  })

  t.equal(
    await json({
      authors: [{ tenant_id: 'acme', id: author, name: 'Ada' }],
      notes: [{ tenant_id: 'acme', author_id: author, tags: ['a', 'b'], size: 12.5 }, { tenant_id: 'globex', done: true }]
    }),
    undefined,
    'the failed seeds left nothing in the database'
  )
  const { rows } = await sql`select tenant_id, author_id, done, tags, size::text as size from notes order by tenant_id`.execute(app.db)
  t.strictSame(rows.map((row) => Object.assign({}, row)), [
    { tenant_id: 'acme', author_id: author, done: false, tags: ['a', 'b'], size: '12.5' },
    { tenant_id: 'globex', author_id: null, done: true, tags: null, size: null }
  ])

  t.equal(await seed('seed.sql', "insert into notes (tenant_id) values ('late')"), 'authors', 'only an empty database is seeded')
  t.equal((await sql`select 1 from notes`.execute(app.db)).rows.length, 2)
})

await t.test('a seed names each tenant as the database prints its id', (t) =>
  forEachEngine(t, async (t, engine) => {
    const app = await testServer(t, { routes: [] }, { engine })
    await sql`create table by_uuid (id integer primary key, tenant_id uuid)`.execute(app.db)
    await sql`create table by_number (id integer primary key, tenant_id integer)`.execute(app.db)
    await app.engine.refresh()
    const folder = t.testdir({})
    const fill = async (document: object) => {
      writeFileSync(join(folder, 'seed.json'), JSON.stringify(document))
      return await (await readSeed(join(folder, 'seed.json'))).fill(app.engine)
    }
    await t.rejects(fill({ by_uuid: [{ id: 1, tenant_id: author.toUpperCase() }] }), {
      message: /seed\.json: \/by_uuid\/0: the "tenant_id" of a row of "by_uuid" must be a UUID in lower case with hyphens$/
    })
    await t.rejects(fill({ by_number: [{ id: 1, tenant_id: 7 }, { id: 2, tenant_id: '07' }] }), {
      message: /\/by_number\/1: the "tenant_id" of a row of "by_number" must be an integer of 32 bits without leading zeros$/
    })
    const rowsByUuid = [{ id: 1, tenant_id: author }, { id: 2, tenant_id: null }]
    t.equal(await fill({ by_uuid: rowsByUuid, by_number: [{ id: 1, tenant_id: 7 }] }), undefined)
    const { rows } = await sql`select tenant_id::text from by_uuid union select tenant_id::text from by_number order by 1`.execute(app.db)
    t.strictSame(rows.map((row) => Object.assign({}, row)), [{ tenant_id: '7' }, { tenant_id: author }, { tenant_id: null }])
  }))

t.test('a SQL file is split into its statements', async (t) => {
  const texts = (text: string) => statementsOf(text).map(({ text, line }) => [line, text])
  t.strictSame(texts(''), [])
  t.strictSame(texts(' ;; -- nothing; here\n/* nor; here */'), [])
  t.strictSame(texts("select ';', \"a;b\", e'\\';' ; select 2;"), [[1, "select ';', \"a;b\", e'\\';'"], [1, 'select 2']])
  t.strictSame(texts('-- a; comment\n\nselect $$ ; $$;\nselect $x$ $$ ; $x$ -- end;\n'), [[3, 'select $$ ; $$'], [
    4,
    'select $x$ $$ ; $x$ -- end;'
  ]])
  t.strictSame(texts('select a$b$ ; select c$b$'), [[1, 'select a$b$'], [1, 'select c$b$']], 'a dollar sign within a name does not start a quote')
})
