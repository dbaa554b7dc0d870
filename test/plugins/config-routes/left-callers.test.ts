import { request } from 'node:http'
import { test } from 'tap'
import { noTenant } from '../../../lib/identity/tenant-ref.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { listen, testServer } from '../../helpers/server.js'
import { until } from '../../helpers/until.js'

const sql = `
create sequence runs;
create table notes (id integer primary key, title text);
create view counted as select 1 as id, nextval('runs') as run;
`

test('the queries of callers that leave before a connection is free do not run', async (t) => {
  const { connectionString, query } = await postgresDatabase(t, { sql })
  let arrived = 0
  const app = await testServer(t, {
    routes: [
      { method: 'get', path: '/counted', queries: [{ table: 'counted', operation: 'select', order: { column: 'id' } }] },
      { method: 'post', path: '/notes', queries: [{ table: 'notes', operation: 'insert' }] },
      {
        method: 'post',
        path: '/two',
        queries: [{ table: 'notes', operation: 'insert' }, { table: 'notes', alias: 'second', operation: 'update', id: '{{body.id}}' }]
      }
    ]
  }, {
    engine: { provider: 'postgres', postgres: { connectionString, pool: { max: 1 } } },
    prepare: (app) =>
      app.addHook('preHandler', async () => {
        arrived++
      })
  })
  const origin = await listen(app)
  // The first request looks things up that later ones find in memory.
  await app.inject('/counted')
  // The server's own statements may wait too.
  const wait = (count: number) => until('the requests wait for a connection', () => arrived === 1 + count && app.engine.status().waiting >= count)
  let release = () => {}
  const holding = app.engine.transaction({ tenant: noTenant }, () =>
    new Promise<void>((resolve) => {
      release = resolve
    }))
  const nothing = release
  // The server's own statements may have the connection at first.
  await until('the transaction has the connection', () => release !== nothing)
  const send = (method: string, path: string, id = 0) => {
    const sent = request(origin + path, { method, headers: { 'content-type': 'application/json' } })
    sent.on('error', () => {})
    sent.end(method === 'GET' ? undefined : JSON.stringify({ id, title: 'a' }))
    return sent
  }
  const left = [send('GET', '/counted'), send('POST', '/notes', 1), send('POST', '/two', 2)]
  await wait(3)
  for (const sent of left) sent.destroy()
  await until('the callers have left', () => new Promise<boolean>((resolve) => app.server.getConnections((_error, count) => resolve(count === 0))))
  const stayed = new Promise((resolve) => send('POST', '/notes', 3).on('response', (response) => {
    response.resume().on('end', () => resolve(response.statusCode))
  }))
  await wait(4)
  release()
  await holding
  t.equal(await stayed, 201)
  t.strictSame(await query('select id from notes'), [{ id: 3 }])
  t.match(await query('select last_value::int from runs'), [{ last_value: 1 }])
})
