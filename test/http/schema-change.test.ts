/** Tables that change while they are served: routes adapt, or return 503; never a 500. */
import { setTimeout as wait } from 'node:timers/promises'
import { test } from 'tap'
import { postgresDatabase } from '../helpers/postgres.js'
import { testServer } from '../helpers/server.js'
import { signToken } from '../helpers/tokens.js'
import { caller, refused, type Reply } from './caller.js'

const byId = [{ column: 'id', value: '{{params.id}}' }]

test('tables that change while they are served', async (t) => {
  const database = await postgresDatabase(t, {
    sql: `create table things (id int primary key, name text, size int, colour text);
          create table boxes (id int primary key, thing_id int references things (id))`
  })
  const app = await testServer(t, {
    routes: [
      { method: 'get', path: '/things', queries: [{ table: 'things', operation: 'select', order: { column: 'id' } }] },
      { method: 'get', path: '/things/:id', queries: [{ table: 'things', operation: 'select', id: '{{params.id}}' }] },
      { method: 'post', path: '/things', queries: [{ table: 'things', operation: 'insert' }] },
      { method: 'put', path: '/things/:id', queries: [{ table: 'things', operation: 'upsert', id: '{{params.id}}' }] },
      { method: 'get', path: '/colours', queries: [{ table: 'things', operation: 'select', select: 'colour' }] },
      { method: 'get', path: '/boxes', queries: [{ table: 'boxes', operation: 'select', select: 'id, thing:things(name)' }] },
      {
        method: 'get',
        path: '/by-size/:size',
        queries: [{ table: 'things', operation: 'select', filters: [{ column: 'size', value: '{{params.size}}' }] }]
      },
      { method: 'delete', path: '/things/:id', queries: [{ table: 'things', operation: 'delete', filters: byId }] }
    ]
  }, { engine: { provider: 'postgres', postgres: { connectionString: database.connectionString } } })
  const ask = caller(t, app)
  const everything = () =>
    Promise.all(
      ['GET /things', 'GET /things/1', 'GET /colours', 'GET /boxes', 'GET /by-size/1', 'GET /things'].map((target) => ask(target))
    )
  /** Repeats the request until the response is as expected; meanwhile only 503 is allowed. */
  const until = async (target: string, fits: (response: Reply) => boolean) => {
    let response = await ask(target)
    for (let tries = 0; tries < 200 && !fits(response); tries++) {
      if (response.status !== 503 && response.status !== 200) return t.fail(`${target}: ${response.status} ${response.text}`)
      await wait(50)
      response = await ask(target)
    }
    if (!fits(response)) t.fail(`${target} was never as expected: ${response.status} ${response.text}`)
  }
  t.match(await ask('POST /things', { body: { id: 1, name: 'one', size: 1, colour: 'red' } }), { status: 201 })
  await everything()

  await t.test('a dropped column affects only the routes that name it', async (t) => {
    await database.query('alter table things drop column colour')
    const statuses = new Set<number>()
    for (let round = 0; round < 3; round++) for (const { status } of await everything()) statuses.add(status)
    t.ok([...statuses].every((status) => status === 200 || status === 503), [...statuses].join())
    await until('GET /things', ({ status, body }) => status === 200 && body.data?.[0]?.['colour'] === undefined)
    const gone = await ask('GET /colours')
    refused(t, gone, 503, 'SCHEMA_CHANGED')
    t.equal(gone.headers['retry-after'], '1')
    t.match(await ask('GET /boxes'), { status: 200 })
    refused(t, await ask('POST /things', { body: { id: 2, colour: 'red' } }), 400, 'VALIDATION_FAILED', 'the column no longer exists')
    t.match(await ask('POST /things', { body: { id: 2, name: 'two', size: 2 } }), { status: 201 })
  })

  await t.test('a restored column restores its routes', async (t) => {
    await database.query("alter table things add column colour text default 'blue'")
    await until('GET /colours', ({ status, body }) => status === 200 && body.data?.[0]?.['colour'] === 'blue')
    t.match(await ask('POST /things', { body: { id: 3, colour: 'green' } }), { status: 201, body: { colour: 'green' } })
  })

  await t.test('a new column is available after POST /migration/apply', async (t) => {
    await database.query('alter table things add column weight int')
    t.match(await ask('POST /migration/apply', { token: signToken({ role: 'admin' }) }), { status: 200, body: { applied: { length: 0 } } })
    t.match(await ask('POST /things', { body: { id: 4, weight: 7 } }), { status: 201, body: { weight: 7 } })
  })

  await t.test('a changed column type is detected', async (t) => {
    await database.query("alter table things alter column size type text using 'size ' || size")
    // A value that is not a number is rejected before PostgreSQL sees it; a number reveals that the column's type has changed.
    await until('GET /by-size/1', ({ status }) => status === 200)
    await until('GET /by-size/size%201', ({ status, body }) => status === 200 && body.data?.[0]?.['name'] === 'one')
    t.match(await ask('POST /things', { body: { id: 5, size: 'huge' } }), { status: 201 })
  })

  await t.test('a dropped key and a dropped table are handled', async (t) => {
    await database.query('alter table boxes drop constraint boxes_thing_id_fkey; alter table things drop constraint things_pkey')
    for (let tries = 0; tries < 5; tries++) {
      const { status } = await ask('PUT /things/1', { body: { name: 'changed' } })
      t.ok([200, 503].includes(status), `an upsert after its key was dropped: ${status}`)
    }
    await database.query('alter table things rename to other_things')
    for (let round = 0; round < 3; round++) for (const { status } of await everything()) t.ok([200, 503].includes(status), String(status))
    refused(t, await ask('GET /things'), 503, 'SCHEMA_CHANGED')
    await database.query('alter table other_things rename to things; alter table things add primary key (id)')
    await until('GET /things', ({ status }) => status === 200)
    t.match(await ask('PUT /things/1', { body: { name: 'changed' } }), { status: 200 })
  })
})
