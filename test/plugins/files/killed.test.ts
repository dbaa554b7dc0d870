/** Processes that are killed with SIGKILL while they receive or remove files, or create images. */
import { request } from 'node:http'
import { sql } from 'kysely'
import pg from 'pg'
import sharp from 'sharp'
import { type Test, test } from 'tap'
import { createLocalStore } from '../../../lib/files/local.js'
import { startInstance } from '../../helpers/instances.js'
import { advisoryWaits } from '../../helpers/locks.js'
import type { DatabaseSection } from '../../helpers/postgres.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import type { TestDocument } from '../../helpers/server.js'
import { listen, testServer } from '../../helpers/server.js'
import { bearer } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { refused } from '../../http/caller.js'
import { file, onDisk, plans, rows, storage, userOf } from './app.js'
import { removalOf } from './tus.js'

const ada = () => bearer({ sub: 'ada', tenant_id: 'acme' })
const nothing = { booked: 0, reserved: 0, shown: 0 }

/** Servers of one database and one folder. No server runs in this process, since its sweep would do the killed server's work. */
async function open (t: Test, document: TestDocument) {
  const { connectionString, query } = await postgresDatabase(t)
  const engine: DatabaseSection = { provider: 'postgres', postgres: { connectionString } }
  const folder = t.testdir()
  const whole = { plans, ...document, files: { path: folder, ...document.files } }
  const start = async () => {
    const program = await startInstance(t, whole, engine)
    return { ...program, user: userOf(t, program.address, ada()) }
  }
  return { connectionString, engine, folder, query, document: whole, start }
}

const objects = async (folder: string) => (await onDisk(folder)).filter((path) => path.startsWith('acme/'))

test('files of a deleted row are removed by another server if the first is killed before its sweep', async (t) => {
  const { engine, folder, query, document, start } = await open(t, {
    tables: { notes: { tenantScoped: true, columns: { id: { type: 'integer', primaryKey: true } } } },
    files: { onEntityDelete: 'delete' },
    routes: [{ path: '/notes/:id', method: 'delete', queries: [{ table: 'notes', operation: 'delete', id: '{{params.id}}' }] }]
  })
  const killed = await start()
  await query("insert into tenantry.tenants (id, name, plan) values ('acme', 'acme', 'large')")
  await query("insert into notes (tenant_id, id) values ('acme', 1)")
  const { status, body } = await killed.user.upload([file('x'), { name: 'entityType', value: 'notes' }, { name: 'entityId', value: '1' }])
  t.equal(status, 201)
  t.equal((await killed.user.ask('DELETE /notes/1')).status, 200)
  await killed.stop('SIGKILL')

  const app = await testServer(t, document, { engine })
  const user = userOf(t, await listen(app), ada())
  t.equal((await user.ask(`GET /files/${String(body['id'])}`)).status, 404)
  await until('nothing remains', async () => (await objects(folder)).length === 0 && Object.keys(await rows(app)).length === 0)
  t.same(await storage(app, 'acme'), nothing)
})

test('the storage of an upload to a signed URL is given back soon if its process is killed', async (t) => {
  const { engine, folder, query, document, start } = await open(t, {})
  const killed = await start()
  await query("insert into tenantry.tenants (id, name, plan) values ('acme', 'acme', 'large')")
  const { body: { id, url } } = await killed.user.ask('POST /files/presign', {
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'a.txt', contentType: 'text/plain', size: 10 })
  })
  const sending = request(`${killed.address}${String(url)}`, { method: 'PUT', headers: { 'content-length': '10' } }).on('error', () => {})
  sending.write('hello')
  const statuses = async () => (await query('select status from tenantry.files')).map(({ status }) => status)
  await until('the bytes arrive', async () => (await statuses())[0] === 'receiving')
  await killed.stop('SIGKILL')

  const app = await testServer(t, document, { engine })
  const user = userOf(t, await listen(app), ada())
  const repeat = () => user.ask(`PUT ${String(url)}`, { body: 'helloworld' })
  refused(t, await repeat(), 409, 'STATE_CONFLICT', 'the process may still run')
  await sql`update tenantry.files set expires_at = expires_at - interval '10 minutes'`.execute(app.db)
  refused(t, await repeat(), 403, 'URL_SIGNATURE_INVALID')
  refused(t, await user.ask(`POST /files/${String(id)}/confirm`), 404, 'NOT_FOUND')
  await removalOf(app, createLocalStore(folder)).removal.sweep()
  t.same([await statuses(), await storage(app, 'acme')], [[], nothing])
})

test('a process killed during an image leaves no object without a row, and no storage', async (t) => {
  const { connectionString, engine, folder, query, document, start } = await open(t, {
    plans: { roomy: { price: { monthly: 1 }, limits: { fileStorage: { maxStorageMB: 100, maxFileSizeMB: 10 } } } }
  })
  const noise = await sharp({
    create: { width: 1200, height: 1200, channels: 3, background: '#000', noise: { type: 'gaussian', mean: 128, sigma: 60 } }
  }).jpeg().toBuffer()
  const first = await start()
  await query("insert into tenantry.tenants (id, name, plan) values ('acme', 'acme', 'roomy')")
  const { body: { id, url } } = await first.user.upload([file(noise, 'noise.jpg', 'image/jpeg')])
  // The transaction that books the image waits for a lock on its row.
  await query(
    "create function wait_for_lock() returns trigger language plpgsql as 'begin perform pg_advisory_xact_lock_shared(7); return new; end'"
  )
  await query(
    'create trigger wait_for_lock after insert on tenantry.file_transforms for each row when (new.size > 0) execute function wait_for_lock()'
  )
  const kept = async () => Number((await query('select count(*)::integer as count from tenantry.file_transforms'))[0]?.['count'])
  const waiting = async () => Number((await query(`${advisoryWaits} and objid = 7`))[0]?.['n'])
  const held = async () =>
    Number((await query('select count(*)::integer as count from tenantry.usage_reservations where booked is null'))[0]?.['count'])

  const ask = (of: typeof first, width: number, format = 'jpeg') => {
    of.user.ask(`GET ${String(url)}?width=${width}&format=${format}`).catch(() => {})
  }
  ask(first, 901, 'avif')
  // The image takes longer than a later request.
  t.equal((await first.user.ask(`GET /files/${String(id)}`)).status, 200)
  await first.stop('SIGKILL')

  const second = await start()
  const holder = new pg.Client({ connectionString })
  await holder.connect()
  t.teardown(() => holder.end())
  await holder.query('select pg_advisory_lock(7)')
  ask(second, 902)
  await until('its storage is reserved, and its row waits', async () => await waiting() === 1 && await held() >= 1)
  await second.stop('SIGKILL')
  await holder.query('select pg_advisory_unlock(7)')
  t.equal(await kept(), 0)

  const third = await start()
  ask(third, 903)
  await until('its row exists', async () => await kept() === 1)
  await third.stop('SIGKILL')

  const app = await testServer(t, document, { engine })
  const user = userOf(t, await listen(app), ada())
  const { rows: transforms } = await sql<
    { key: string }
  >`select tenant_id || '/' || file_id || '-' || name as key from tenantry.file_transforms`.execute(app.db)
  const known = new Set([`acme/${String(id)}`, ...transforms.map(({ key }) => key)])
  t.same((await objects(folder)).filter((key) => !known.has(key)), [], 'each object has its row')
  await sql`update tenantry.usage_instances set seen_at = seen_at - interval '30 seconds' where id in (select instance_id from tenantry.usage_reservations)`
    .execute(app.db)
  await until('no storage is reserved', async () => (await storage(app, 'acme')).reserved === 0)
  await sql`update tenantry.file_transforms set created_at = created_at - interval '61 seconds'`.execute(app.db)
  t.equal((await user.ask(`GET ${String(url)}?width=903&format=jpeg`)).status, 200)
  t.equal((await objects(folder)).length, 2, 'the image is stored')
  t.equal((await user.ask(`DELETE /files/${String(id)}`)).status, 200)
  t.same([await objects(folder), await rows(app), await storage(app, 'acme')], [[], {}, nothing])
})
