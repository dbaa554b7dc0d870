import { createConnection } from 'node:net'
import pg from 'pg'
import { test } from 'tap'
import { forEachEngine, postgresDatabase, postgresServer } from './postgres.js'

test('two databases of one test share nothing', async t => {
  const [left, right] = await Promise.all([postgresDatabase(t), postgresDatabase(t)])
  await left.query('create table notes (id int)')
  t.strictSame(await left.query('select count(*)::int as n from notes'), [{ n: 0 }])
  await t.rejects(right.query('select from notes'), { code: '42P01' })
})

test('every database that names sql starts with it, and changes stay in one database', async t => {
  const sql = 'create table notes (id int); insert into notes values (1), (2)'
  const databases = await Promise.all([1, 2, 3].map(() => postgresDatabase(t, { sql })))
  await databases[0]?.query('delete from notes where id = $1', [1])
  t.strictSame(await Promise.all(databases.map(database => database.query('select count(*)::int as n from notes'))), [[{ n: 1 }], [{
    n: 2
  }], [{ n: 2 }]])
})

test('row-level security policies apply to the owner of the tables', async t => {
  const database = await postgresDatabase(t, { role: 'owner' })
  await database.query(
    'create table notes (id int); insert into notes values (1); alter table notes enable row level security; alter table notes force row level security'
  )
  t.strictSame(await database.query('select id from notes'), [])
  t.strictSame(await database.admin('select id from notes'), [{ id: 1 }])
})

test('a database is dropped after its test', async t => {
  let { connectionString } = await postgresDatabase(t)
  await t.test('uses a database', async t => {
    connectionString = (await postgresDatabase(t)).connectionString
  })
  const client = new pg.Client({ connectionString })
  await t.rejects(client.connect(), { code: '3D000' })
})

test('disconnect ends the sessions of the database', async t => {
  const database = await postgresDatabase(t)
  const client = new pg.Client({ connectionString: database.connectionString })
  const lost = new Promise(resolve => client.on('error', resolve))
  await client.connect()
  t.equal(await database.disconnect(), 1)
  t.match(await lost, { code: '57P01' })
  t.strictSame(await database.query('select 1 as n'), [{ n: 1 }])
})

test('a private server stops, crashes and restarts on its port with its data', async t => {
  const server = await postgresServer(t)
  await server.query('create table notes (id int)')
  for (const stop of [() => server.stop(), () => server.stop('immediate'), () => server.kill()]) {
    await stop()
    t.equal(await accepts(server.port), false)
    await server.start()
    t.strictSame(await server.query('select count(*)::int as n from notes'), [{ n: 0 }])
  }
})

test('each engine runs as a subtest', async t => {
  await postgresDatabase(t)
  const seen: string[] = []
  await forEachEngine(t, async (t, database) => {
    t.ok(database.provider)
    seen.push(database.provider)
  })
  t.strictSame(seen, ['postgres', 'embedded'])
})

function accepts (port: number): Promise<boolean> {
  return new Promise(resolve => {
    const socket = createConnection(port, '127.0.0.1', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}
