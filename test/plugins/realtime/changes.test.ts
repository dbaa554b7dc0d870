/** Changes of rows reach their watchers, and no other client. */
import { sql } from 'kysely'
import { test } from 'tap'
import { forEachEngine, postgresSection } from '../../helpers/postgres.js'
import { document, open } from './app.js'

test('a watch gets created, updated, left and deleted rows in order, without excluded fields', (t) =>
  forEachEngine(t, async (t, engine) => {
    const { connect, ask } = await open(t, {}, { engine })
    const acme = ask('acme')
    const before = await acme('POST /notes', { body: { title: 'before' } })
    t.equal(before.status, 201)
    const client = await connect('acme')
    const ack = await client.ask({ type: 'watch', table: 'notes', filter: { done: false } })
    t.match(ack, { type: 'ack', watch: String, position: 1 }, 'after earlier commits')
    const made = await acme('POST /notes', { body: { title: 'one', amount: 12.5, secret: 'hidden' } })
    const path = `/notes/${String(made.body['id'])}`
    await acme(`PATCH ${path}`, { body: { title: 'two' } })
    await acme(`PATCH ${path}`, { body: { done: true } })
    await acme(`PATCH ${path}`, { body: { title: 'unseen' } })
    await acme(`PATCH ${path}`, { body: { done: false } })
    await acme(`DELETE ${path}`)
    await acme('POST /notes', { body: { title: 'done', done: true } })
    await acme('POST /notes', { body: { title: 'last' } })

    const changes = []
    for (let index = 0; index < 6; index++) changes.push(await client.change())
    t.match(changes, [
      {
        watch: ack['watch'],
        table: 'notes',
        action: 'created',
        id: made.body['id'],
        position: 2,
        record: { title: 'one', amount: 12.5, done: false }
      },
      { action: 'updated', record: { title: 'two' }, position: 3 },
      { action: 'left', record: null, id: made.body['id'], position: 4 },
      { action: 'updated', record: { title: 'unseen', done: false }, position: 6 },
      { action: 'deleted', record: null, position: 7 },
      { action: 'created', record: { title: 'last' }, position: 9 }
    ])
    t.notMatch(JSON.stringify(changes), /secret|hidden/)
    await client.settle()
    t.equal(client.messages.length, 0)
  }))

test('a removed row is named by its key, even if the key has several columns or changes', async (t) => {
  const engine = await postgresSection(t)
  const { app, connect, ask } = await open(t, {
    tables: {
      ...document.tables,
      pairs: {
        tenantScoped: true,
        columns: { a: { type: 'integer', primaryKey: true }, b: { type: 'text', primaryKey: true }, title: { type: 'text' } }
      }
    },
    realtime: { tables: { notes: {}, tasks: { trigger: true }, pairs: { trigger: true } } }
  }, { engine })
  const client = await connect('acme')
  for (const table of ['notes', 'tasks', 'pairs']) t.match(await client.ask({ type: 'watch', table }), { type: 'ack' })
  const acme = ask('acme')
  const { body: { id } } = await acme('POST /notes', { body: { title: 'one' } })
  t.match(await client.change(), { action: 'created', id })
  t.equal((await acme(`DELETE /notes/${String(id)}?hard=true`)).status, 200)
  t.match(await client.change(), { table: 'notes', action: 'deleted', id, record: null })
  await sql`insert into tasks (tenant_id, number, title) values ('acme', 7, 'x')`.execute(app.db)
  t.match(await client.change(), { action: 'created', id: 7 })
  await sql`update tasks set number = 8 where number = 7`.execute(app.db)
  t.match([await client.change(), await client.change()], [{ action: 'deleted', id: 7 }, {
    action: 'created',
    id: 8,
    record: { number: 8 }
  }])
  await sql`delete from tasks`.execute(app.db)
  t.match(await client.change(), { table: 'tasks', action: 'deleted', id: 8 })
  await sql`insert into pairs (tenant_id, a, b) values ('acme', 1, 'x')`.execute(app.db)
  t.match(await client.change(), { action: 'created', id: { a: 1, b: 'x' } })
  await sql`delete from pairs`.execute(app.db)
  t.match(await client.change(), { table: 'pairs', action: 'deleted', id: { a: 1, b: 'x' } })
})

test('a watch finds no rows of other tenants, does not run SQL in values, and refuses templates', async (t) => {
  const { connect, ask } = await open(t, {}, { engine: await postgresSection(t) })
  const [acme, globex] = [ask('acme'), ask('globex')]
  const { body: { id } } = await globex('POST /notes', { body: { title: 'theirs' } })
  const client = await connect('acme')
  t.match(await client.ask({ type: 'watch', table: 'notes', id }), { type: 'ack' }, 'the same as for a row that does not exist')
  t.match(await client.ask({ type: 'watch', table: 'notes', id: "x' or 1=1 --" }), { type: 'error', status: 400 })
  t.match(await client.ask({ type: 'watch', table: 'notes', filter: { tenant_id: 'globex' } }), { type: /ack|error/ })
  t.match(await client.ask({ type: 'watch', table: 'notes', filter: { title: "x' or '1'='1'; drop table notes; --" } }), { type: 'ack' })
  for (const filter of [{ title: '{{auth.tenantId}}' }, { title: '{{1 + 1}}' }]) {
    t.match(await client.ask({ type: 'watch', table: 'notes', filter }), { type: 'error', status: 400, message: /template/ })
  }
  t.equal((await globex(`PATCH /notes/${String(id)}`, { body: { title: 'changed' } })).status, 200)
  t.equal((await acme('POST /notes', { body: { title: 'ours' } })).status, 201)
  const live = await client.ask({ type: 'watch', table: 'notes' })
  t.equal((await acme('POST /notes', { body: { title: 'last' } })).status, 201)
  t.match(await client.change(), { watch: live['watch'], record: { title: 'last' } }, 'the first change of any watch')
  t.equal(client.messages.length, 0)
})

test('a filter on a numeric column compares numbers, with every digit', (t) =>
  forEachEngine(t, async (t, engine) => {
    const { app, connect } = await open(t, {}, { engine })
    const client = await connect('acme')
    const pairs = [
      ['10', '10.0'],
      ['12345678901234567890', '12345678901234567890.00'],
      ['12345678901234567890.1', '12345678901234567890.10'],
      ['10000000000000000000000', '10000000000000000000000.0'],
      ['-0.00000000000000000000001', '-0.000000000000000000000010'],
      ['0', '0.00000000000000000000']
    ] as const
    const nears = ['10.0000000000000000000001', '12345678901234567891', '12345678901234567890.11', '-12345678901234567890.1']
    const watches: unknown[] = []
    for (const [amount] of pairs) {
      client.socket.send(`{"type":"watch","table":"notes","ref":"${amount}","filter":{"amount":${amount}}}`)
      const ack = await client.next(({ ref }) => ref === amount)
      t.match(ack, { type: 'ack' }, amount)
      watches.push(ack['watch'])
    }
    for (const amount of [...nears, ...pairs.flat(), 'NaN']) {
      await sql`insert into notes (tenant_id, title, amount) values ('acme', ${amount}, ${sql.raw(`'${amount}'`)})`.execute(app.db)
    }
    for (const [index, pair] of pairs.entries()) {
      for (const title of pair) t.match(await client.change(), { watch: watches[index], record: { title } }, title)
    }
    await client.settle()
    t.equal(client.messages.length, 0)
  }))
