/** Uploads whose process is killed, expired files, and deleted tenants. */
import { once } from 'node:events'
import { mkdir, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { Readable } from 'node:stream'
import { sql } from 'kysely'
import { test } from 'tap'
import { noActor } from '../../../lib/database/audit.js'
import { failure } from '../../../lib/errors.js'
import { createLocalStore } from '../../../lib/files/local.js'
import type { ObjectStore } from '../../../lib/files/store.js'
import { testApp } from '../../helpers/app.js'
import { gate } from '../../helpers/gate.js'
import { startInstance } from '../../helpers/instances.js'
import { testServer } from '../../helpers/server.js'
import { bearer } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { postgresSection } from '../auth/app.js'
import { boundary, file, form, MB, onDisk, open, plans, rows, storage, userOf } from './app.js'

test('a process killed during an upload leaves no file and no storage, and later neither a row nor an object', async (t) => {
  const folder = t.testdir()
  const engine = await postgresSection(t)
  const document = { plans, files: { path: folder } }
  const killed = await startInstance(t, document, engine)
  const app = await testServer(t, document, { engine, tenants: [{ id: 'seven', plan: 'seven' }] })
  const user = userOf(t, killed.address, bearer({ sub: 'ada', tenant_id: 'seven' }))
  const kept = await user.upload([file('kept')])
  t.equal(kept.status, 201)
  const { port } = new URL(killed.address)
  const socket = connect(Number(port), '127.0.0.1').on('error', () => {})
  t.teardown(() => {
    socket.destroy()
  })
  await once(socket, 'connect')
  const body = form([file(Buffer.alloc(MB / 2))])
  socket.write(
    `POST /files/upload HTTP/1.1\r\nhost: x\r\nauthorization: ${
      user.headers['authorization']
    }\r\ncontent-type: multipart/form-data; boundary=${boundary}\r\ncontent-length: ${body.length}\r\n\r\n`
  )
  socket.write(body.subarray(0, MB / 4))
  await until('the upload is running', async () => (await rows(app))['pending'] === 1 && (await onDisk(folder)).length === 2)
  t.same(await storage(app, 'seven'), { booked: 4, reserved: MB / 2, shown: MB / 2 + 4 })
  await killed.stop('SIGKILL')

  t.same((await onDisk(folder)).filter((path) => path.startsWith('seven/')), [kept.body['key']], 'its object does not exist')
  await sql`update tenantry.usage_instances set seen_at = seen_at - interval '30 seconds' where id in (select instance_id from tenantry.usage_reservations)`
    .execute(app.db)
  await until('its storage is free once the process is known to be dead', async () => {
    const { booked, reserved, shown } = await storage(app, 'seven')
    return booked === 4 && reserved === 0 && shown === 4
  })
  // As if it had been killed a moment later: the object exists, but cannot be read.
  const { rows: [pending] } = await sql<{ id: string }>`update tenantry.files set expires_at = now() where status = 'pending' returning id`
    .execute(app.db)
  await mkdir(`${folder}/seven`, { recursive: true })
  await writeFile(`${folder}/seven/${String(pending?.id)}`, 'bytes')
  const other = await testServer(t, document, { engine })
  t.equal(await other.files.get('seven', String(pending?.id)), null)
  await until(
    'the row and the object are removed',
    async () =>
      (await onDisk(folder)).filter((path) => path.startsWith('seven/')).length === 1 && (await rows(app))['pending'] === undefined
  )
  t.same(await storage(app, 'seven'), { booked: 4, reserved: 0, shown: 4 })
  t.ok(await other.files.get('seven', String(kept.body['id'])), 'a confirmed file stays')
})

test('expired files and unconfirmed uploads are removed with their storage', async (t) => {
  const engine = await postgresSection(t)
  const document = { plans, files: { path: t.testdir({ files: {} }) + '/files', buckets: { brief: { lifetimeSeconds: 60 } } } }
  const app = await testServer(t, document, { engine, tenants: [{ id: 'acme', plan: 'large' }] })
  const ada = userOf(t, await app.listen({ port: 0, host: '127.0.0.1' }), bearer({ sub: 'ada', tenant_id: 'acme' }))
  const brief = await ada.upload([file('brief'), { name: 'bucket', value: 'brief' }])
  const lasting = await ada.upload([file('lasting')])
  const announced = await ada.ask('POST /files/presign', {
    headers: { 'content-type': 'application/json' },
    body: '{"name":"a","contentType":"text/plain","size":100}'
  })
  t.same([brief.status, lasting.status, announced.status], [201, 201, 201])
  t.equal((await storage(app, 'acme')).booked, 5 + 7 + 100)
  const { rows: lifetimes } = await sql<
    { seconds: number | null }
  >`select extract(epoch from expires_at - created_at)::float8 as seconds from tenantry.files order by size`.execute(app.db)
  t.same(lifetimes.map(({ seconds }) => seconds === null ? null : Math.round(seconds / 60) * 60), [60, null, 3600])
  await sql`update tenantry.files set expires_at = now() where expires_at is not null`.execute(app.db)
  const other = await testServer(t, document, { engine })
  await until('they are removed', async () => (await rows(other))['ready'] === 1 && Object.keys(await rows(other)).length === 1)
  t.same(await onDisk(document.files.path), [lasting.body['key']])
  t.same(await storage(other, 'acme'), { booked: 7, reserved: 0, shown: 7 })
  const { rows: entries } = await sql`select action, user_id, target from tenantry.audit_log where action like 'file.%' order by id`
    .execute(app.db)
  t.same(entries, [
    { action: 'file.create', user_id: 'ada', target: brief.body['id'] },
    { action: 'file.create', user_id: 'ada', target: lasting.body['id'] },
    { action: 'file.delete', user_id: null, target: brief.body['id'] }
  ])
})

test("deleting a tenant deletes its objects, and no other tenant's", async (t) => {
  const { app, as, folder } = await open(t)
  await as('acme').upload([file('x')])
  const { body } = await as('globex').upload([file('x')])
  await app.tenants.delete('acme')
  t.same([await onDisk(folder), await rows(app)], [[body['key']], { ready: 1 }])
})

test('a server that deletes a tenant keeps the files of a later tenant with its id', async (t) => {
  const disk = createLocalStore(t.testdir())
  const engine = await postgresSection(t)
  const { opened, open: resume } = gate()
  let isStalled = false
  const stalling: ObjectStore = {
    ...disk,
    async * list (prefix) {
      isStalled = true
      await opened
      yield * disk.list(prefix)
    }
  }
  const { app: stalled } = await testApp(t, { engine, plugins: { files: { store: stalling } }, tenants: ['acme'] })
  const { app } = await testApp(t, { engine, plugins: { files: { store: disk } } })
  const upload = () => app.files.put('acme', { name: 'a.txt' }, Readable.from(['x']), { sub: 'ada', actor: noActor })
  await upload()

  const slow = stalled.tenants.delete('acme')
  await until('the deletion has stalled', () => isStalled)
  await app.tenants.delete('acme')
  await app.tenants.create({ id: 'acme', name: 'Another' })
  const { id } = await upload()
  resume()
  await slow
  t.ok(await disk.stat(`acme/${id}`), 'its object is there')
  t.match(await app.tenants.get('acme'), { name: 'Another', status: 'active' })
})

test('a deletion whose objects cannot be deleted is not confirmed, and is resumed', async (t) => {
  const disk = createLocalStore(t.testdir())
  let isDown = true
  const store: ObjectStore = {
    ...disk,
    async delete (key) {
      if (isDown) throw failure('storageUnavailable')
      await disk.delete(key)
    }
  }
  const { app } = await testApp(t, { plugins: { files: { store } }, tenants: ['acme'] })
  const { id } = await app.files.put('acme', { name: 'a.txt' }, Readable.from(['x']), { sub: 'ada', actor: noActor })
  await t.rejects(app.tenants.delete('acme'), { code: 'TENANTRY_STORAGE_UNAVAILABLE' })
  t.match(await app.tenants.list({ limit: 1, offset: 0 }), { data: [{ id: 'acme', status: 'deleting' }] })
  isDown = false
  await app.tenants.delete('acme')
  t.equal(await disk.stat(`acme/${id}`), null)
  t.equal(await app.tenants.get('acme'), null)
})

test('webhooks receive events of files', async (t) => {
  const { app, as } = await open(t, { webhooks: [{ name: 'all', url: 'http://127.0.0.1:9/hook', events: ['file.*'] }] })
  const { body } = await as('acme').upload([file('x')])
  await as('acme').upload([file('x'), { name: 'bucket', value: 'attic' }])
  await as('acme').ask(`DELETE /files/${String(body['id'])}`)
  const { rows } = await sql<
    { type: string, subject: string, data: unknown }
  >`select type, subject, data from tenantry.webhook_events order by place`.execute(app.db)
  const { url, public: isPublic, ...data } = body
  t.ok(url !== undefined && isPublic === false)
  t.same(rows, ['file.created', 'file.deleted'].map((type) => ({ type, subject: `files:${String(body['id'])}`, data })))
})
