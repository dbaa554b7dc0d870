/** SIGTERM during all kinds of callers' activity; test/bin tests the stop without callers. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { type Test, test } from 'tap'
import { launch } from '../bin/tenantry.js'
import { atOnce } from '../helpers/at-once.js'
import { postgresDatabase } from '../helpers/postgres.js'
import { testEnv } from '../helpers/server.js'
import { refused, remoteCaller } from './caller.js'

/** A view that takes a minute to read, longer than the statement timeout, and one whose response fills every buffer on its way. */
const sql = `
  create table single (id int primary key);
  insert into single values (1);
  create view stuck as select id, pg_sleep(60)::text as slept from single;
  create view large as select n as id, repeat('x', 100000) as text from generate_series(1, 100) n`

test('SIGTERM', (t) =>
  atOnce(t, {
    'a stop ends in time with 0, whatever callers and statements do': endsInTime,
    "for server.stopDelayMs after SIGTERM requests are still served, each as its connection's last, and probes rejected; a second signal ends that":
      servesOn
  }))

async function endsInTime (t: Test): Promise<void> {
  const { connectionString, query } = await postgresDatabase(t, { sql })
  const folder = t.testdir({
    'tenantry.json': JSON.stringify({
      postgres: { connectionString },
      routes: [
        ...['stuck', 'large'].map((table) => ({ path: `/${table}`, method: 'get', queries: [{ table, operation: 'select', limit: 100 }] })),
        { path: '/echo', method: 'post', response: { body: '{{body}}' } }
      ]
    })
  })
  const server = launch(t, folder, ['start', '--port', '0'], { ...testEnv })
  const origin = (await server.line(/^listening on /)).slice('listening on '.length)
  const ask = remoteCaller(t, origin)
  const sockets: Socket[] = []
  const open = async (bytes: string) => {
    const socket = connect(Number(new URL(origin).port), '127.0.0.1').on('error', () => {})
    sockets.push(socket)
    await once(socket, 'connect')
    socket.write(bytes)
    return socket
  }
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
  })

  await open('') // sends nothing
  await open('POST /echo HTTP/1.1\r\nHost: x\r\nContent-') // half of the headers
  await open('POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"a":') // half a body
  const idle = await open('POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}')
  await once(idle, 'data') // keeps its connection open
  const slow = await open('GET /large HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(3))
  await once(slow, 'data')
  slow.pause() // stops reading
  const cutOff = Array.from({ length: 4 }, () => fetch(`${origin}/stuck`).then(() => 'answered', () => 'cut off'))
  const running = async () =>
    Number(
      (await query(
        "select count(*)::int as count from pg_stat_activity where state = 'active' and query like '%stuck%' and pid <> pg_backend_pid()"
      ))[0]?.['count']
    )
  while (await running() < 4);

  server.kill('SIGTERM')
  let response = await ask('POST /echo', { body: {} })
  while (response.status === 200) response = await ask('POST /echo', { body: {} })
  refused(t, response, 503, 'STOPPING', 'a new request')
  t.match([response.headers['connection'], response.headers['retry-after']], ['close', '1'])
  const { code, errors } = await server.ended
  t.equal(code, 0)
  t.notMatch(errors.join('\n'), /unhandled|uncaught/i)
  t.strictSame(await Promise.all(cutOff), ['cut off', 'cut off', 'cut off', 'cut off'], 'the stop waited for no statement')
}

async function servesOn (t: Test): Promise<void> {
  const { connectionString, query } = await postgresDatabase(t, { sql: 'create table notes (id int primary key, text text)' })
  const folder = t.testdir({
    'tenantry.json': JSON.stringify({
      postgres: { connectionString },
      server: { stopDelayMs: 300_000 },
      routes: [{ path: '/notes', method: 'post', queries: [{ table: 'notes', operation: 'insert' }] }]
    })
  })
  const server = launch(t, folder, ['start', '--port', '0'], { ...testEnv })
  const origin = (await server.line(/^listening on /)).slice('listening on '.length)
  const ask = remoteCaller(t, origin)
  t.match(await ask('GET /health'), { status: 200, headers: { connection: 'keep-alive' } })
  const kept = connect(Number(new URL(origin).port), '127.0.0.1').on('error', () => {})
  t.teardown(() => kept.destroy())
  await once(kept, 'connect')
  let heard = ''
  kept.setEncoding('utf8').on('data', (text: string) => {
    heard += text
  })
  const body = '{"id":1,"text":"half of it before the signal"}'
  kept.write(
    `POST /notes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body.slice(0, 10)}`
  )

  server.kill('SIGTERM')
  let probe = await ask('GET /health')
  while (probe.status === 200) probe = await ask('GET /health')
  refused(t, probe, 503, 'STOPPING', 'a probe')
  t.match(await ask('POST /notes', { body: { id: 2, text: 'after it' } }), { status: 201, headers: { connection: 'close' } })
  const ended = once(kept, 'close')
  kept.write(body.slice(10))
  await ended
  t.match(heard, /^HTTP\/1\.1 201 .*\r\nconnection: close\r\n/is, 'the server closed the kept connection, and announced it')
  t.same(await query('select id from notes order by id'), [{ id: 1 }, { id: 2 }])
  server.kill('SIGTERM')
  t.equal((await server.ended).code, 1)
}
