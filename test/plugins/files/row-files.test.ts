/** `files.onEntityDelete`: files of deleted rows. */
import { execFileSync } from 'node:child_process'
import { open as openFile, rm } from 'node:fs/promises'
import { sql } from 'kysely'
import t, { type Test, test } from 'tap'
import { waitForWrites } from '../../../lib/database/tenant-lock.js'
import { createLocalStore } from '../../../lib/files/local.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { createFileParts } from '../../../plugins/files/parts.js'
import { createRemoval } from '../../../plugins/files/removal.js'
import { createFileStore } from '../../../plugins/files/store.js'
import { untilBlocked } from '../../helpers/locks.js'
import { postgresDatabase, postgresSection } from '../../helpers/postgres.js'
import type { TestDocument } from '../../helpers/server.js'
import { until } from '../../helpers/until.js'
import { file, form, formHeaders, half, MB, onDisk, open, type Opened, rows, storage } from './app.js'

// Its tests mostly wait.
t.jobs = 4

const columns = { id: { type: 'integer', primaryKey: true }, kind: { type: 'text' } } as const
const byId = { table: 'notes', operation: 'delete', id: '{{params.id}}' } as const

const document = {
  tables: { notes: { tenantScoped: true, columns }, drafts: { tenantScoped: true, softDelete: true, columns } },
  files: { onEntityDelete: 'delete' },
  workflows: [
    {
      id: 'drop',
      steps: [{ id: 'a', type: 'database', operation: 'delete', table: 'notes', filters: [{ column: 'id', value: '{{input.id}}' }] }]
    },
    { id: 'copy', steps: [{ id: 'a', type: 'storage', operation: 'copy', params: { id: '{{input.id}}' } }] }
  ],
  routes: [
    { path: '/notes/:id', method: 'delete', queries: [byId] },
    {
      path: '/kinds/:kind',
      method: 'delete',
      queries: [{ table: 'notes', operation: 'delete', filters: [{ column: 'kind', value: '{{params.kind}}' }] }]
    },
    { path: '/failing/:id', method: 'delete', queries: [byId, { table: 'drafts', operation: 'insert', data: { id: 1 } }] },
    {
      path: '/drafts/:id',
      method: 'delete',
      softDelete: { enabled: true, allowHardDelete: true },
      queries: [{ table: 'drafts', operation: 'delete', id: '{{params.id}}' }]
    },
    { path: '/papers/:id', method: 'delete', firebaseQueries: [{ collection: 'papers', operation: 'delete', docId: '{{params.id}}' }] },
    {
      path: '/papers',
      method: 'post',
      firebaseQueries: [{ collection: 'papers', operation: 'create', docId: '{{body.id}}', data: { a: 1 } }]
    },
    { path: '/drop/:id', method: 'post', workflow: { ref: 'drop', input: { id: '{{params.id}}' } } },
    { path: '/copy/:id', method: 'post', workflow: { ref: 'copy', input: { id: '{{params.id}}' } } }
  ]
} satisfies TestDocument

async function filled ({ app, as }: Opened) {
  for (const tenant of ['acme', 'globex']) {
    for (const id of [1, 2, 3, 4, 5]) {
      await sql`insert into notes (tenant_id, id, kind) values (${tenant}, ${id}, ${id < 3 ? 'low' : 'high'})`.execute(app.db)
      await sql`insert into drafts (tenant_id, id, kind) values (${tenant}, ${id}, 'x')`.execute(app.db)
    }
  }
  const ids = new Map<string, string>()
  const attach = async (tenant: string, entityType: string, entityId: string) => {
    const { body } = await as(tenant).upload([file(`${tenant} ${entityType} ${entityId}`), { name: 'entityType', value: entityType }, {
      name: 'entityId',
      value: entityId
    }])
    ids.set(`${tenant} ${entityType} ${entityId}`, String(body['id']))
  }
  for (const id of ['1', '2', '3', '4', '5']) await attach('acme', 'notes', id)
  await attach('acme', 'notes', '1')
  await attach('globex', 'notes', '1')
  await attach('acme', 'drafts', '1')
  await attach('acme', 'papers', 'p')
  return (name: string) => ids.get(name) ?? ''
}

async function gone (t: Test, { as }: Opened, id: string, name: string): Promise<void> {
  t.equal((await as('acme').ask(`GET /files/${id}`)).status, 404, `${name}: unreadable from then on`)
}

test('deleting a row deletes its files in the same transaction', async (t) => {
  const opened = await open(t, document)
  const { app, as, folder } = opened
  const idOf = await filled(opened)
  const ada = as('acme')
  const there = async (name: string) =>
    (await (name.startsWith('globex') ? as('globex') : ada).ask(`GET /files/${idOf(name)}`)).status === 200
  t.equal((await ada.ask('DELETE /failing/1')).status, 409)
  t.ok(await there('acme notes 1'), 'nothing was deleted')
  t.equal((await ada.ask('DELETE /notes/1')).status, 200)
  await gone(t, opened, idOf('acme notes 1'), 'a route')
  t.same((await ada.ask('GET /files/entity/notes/1')).body['data'], [], 'both of its files')
  t.ok(await there('globex notes 1'), "another tenant's row with the same id")
  t.ok(await there('acme notes 2'), 'another row')
  t.equal((await ada.ask('DELETE /kinds/low')).status, 200)
  await gone(t, opened, idOf('acme notes 2'), 'all rows that match')
  t.equal((await as('acme', { role: 'admin' }).ask('DELETE /admin/entities/notes/3?hard=true')).status, 200)
  await gone(t, opened, idOf('acme notes 3'), 'an administrator')
  t.equal((await ada.ask('POST /drop/4')).status, 200)
  await gone(t, opened, idOf('acme notes 4'), 'a workflow step')
  t.equal((await ada.ask('POST /papers', { headers: { 'content-type': 'application/json' }, body: '{"id":"p"}' })).status, 201)
  t.equal((await ada.ask('DELETE /papers/p')).status, 200)
  await gone(t, opened, idOf('acme papers p'), 'a document')
  t.equal((await ada.ask('DELETE /drafts/1')).status, 200)
  t.ok(await there('acme drafts 1'), 'a soft delete keeps them')
  t.equal((await ada.ask('DELETE /drafts/1?hard=true')).status, 200)
  await gone(t, opened, idOf('acme drafts 1'), 'a hard delete')
  await until(
    'objects, rows and storage follow',
    async () => (await onDisk(folder)).length === 2 && JSON.stringify(await rows(app)) === '{"ready":2}'
  )
  const left = 'acme notes 5'.length
  t.same(await storage(app, 'acme'), { booked: left, reserved: 0, shown: left })
  const { rows: [deletions] } = await sql<
    { count: number }
  >`select count(*)::integer as count from tenantry.audit_log where action = 'file.delete' and tenant_id = 'acme'`.execute(app.db)
  t.equal(deletions?.count, 7)
})

test('by default files stay', async (t) => {
  const { files: _files, ...keeping } = document
  const opened = await open(t, keeping)
  const idOf = await filled(opened)
  const ada = opened.as('acme')
  t.equal((await ada.ask('DELETE /notes/1')).status, 200)
  t.equal((await ada.ask(`GET /files/${idOf('acme notes 1')}`)).status, 200)
})

test('webhooks receive events of the row and of its files', async (t) => {
  const opened = await open(t, {
    ...document,
    webhooks: [{
      name: 'out',
      url: 'http://127.0.0.1:1/',
      events: ['entity.deleted', 'file.deleted'],
      secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
    }]
  })
  const idOf = await filled(opened)
  t.equal((await opened.as('acme').ask('DELETE /notes/1')).status, 200)
  await gone(t, opened, idOf('acme notes 1'), 'with events')
  await until('events are written', async () => {
    const { rows } = await sql<{ type: string }>`select distinct type from tenantry.webhook_events order by 1`.execute(opened.app.db)
    return rows.map(({ type }) => type).join() === 'entity.deleted,file.deleted'
  })
})

test('files are deleted with rows under row-level security', async (t) => {
  const { connectionString } = await postgresDatabase(t, { role: 'owner' })
  const engine = { provider: 'postgres', postgres: { connectionString, rowLevelSecurity: true } } as const
  const opened = await open(t, document, { engine })
  const idOf = await filled(opened)
  t.equal((await opened.as('acme').ask('DELETE /notes/1')).status, 200)
  await gone(t, opened, idOf('acme notes 1'), 'a tenant')
  t.equal((await opened.as('globex').ask(`GET /files/${idOf('globex notes 1')}`)).status, 200)
})

const notes = (app: Opened['app'], ids: readonly number[]) =>
  sql`insert into notes (tenant_id, id, kind) select 'acme', id, 'x' from unnest(${ids}::integer[]) id`.execute(app.db)

test('an upload whose row is deleted meanwhile is rejected, and leaves nothing', async (t) => {
  const opened = await open(t, document)
  const { app, as, folder } = opened
  const ada = as('acme')
  await notes(app, [1, 2, 3, 4, 5])
  const of = (id: number) => ({ entityType: 'notes', entityId: String(id) })
  const remove = async (id: number) => t.equal((await ada.ask(`DELETE /notes/${id}`)).status, 200)
  const json = { 'content-type': 'application/json' }
  const announce = async (id: number, size: number) =>
    (await ada.ask('POST /files/presign', {
      headers: json,
      body: JSON.stringify({ name: 'a', contentType: 'text/plain', size, ...of(id) })
    })).body
  const swept = (status: string) =>
    until(`the sweep has removed what was ${status}`, async () => (await rows(app))[status] === undefined)
  const nothing = () =>
    until(
      'nothing remains',
      async () =>
        JSON.stringify([await onDisk(folder), await rows(app), await storage(app, 'acme')]) ===
          '[[],{},{"booked":0,"reserved":0,"shown":0}]'
    )
  const upload = async (id: number) => {
    const body = form([...Object.entries(of(id)).map(([name, value]) => ({ name, value })), file(Buffer.alloc(MB))])
    const rest = await half(ada, 'POST', '/files/upload', body, formHeaders)
    await until('the upload is running', async () => (await rows(app))['pending'] === 1)
    return rest
  }

  const first = await upload(1)
  await remove(1)
  t.equal(await first(), 409, 'a form')
  await nothing()
  const second = await upload(2)
  await remove(2)
  await swept('pending')
  t.equal(await second(), 409, 'a form whose row the sweep has removed')
  await nothing()

  const announced = await announce(3, 5)
  t.equal((await ada.ask(`PUT ${String(announced['url'])}`, { body: 'hello' })).status, 200)
  await remove(3)
  t.equal((await ada.ask(`POST /files/${String(announced['id'])}/confirm`)).status, 404, 'unconfirmed bytes')
  await nothing()
  const running = await announce(4, MB)
  const rest = await half(ada, 'PUT', String(running['url']), Buffer.alloc(MB))
  await until('the upload is running', async () => (await rows(app))['receiving'] === 1)
  await remove(4)
  await swept('receiving')
  t.equal(await rest(), 409, 'bytes on their way to a signed URL')
  await nothing()

  const tus = { 'tus-resumable': '1.0.0' }
  const metadata = Object.entries({ filename: 'a', ...of(5) }).map(([key, value]) => `${key} ${btoa(value)}`).join()
  const { headers } = await ada.ask('POST /files/resumable', { headers: { ...tus, 'upload-length': '10', 'upload-metadata': metadata } })
  const send = async (offset: number) =>
    (await ada.ask(`PATCH ${String(headers['location'])}`, {
      headers: { ...tus, 'content-type': 'application/offset+octet-stream', 'upload-offset': String(offset) },
      body: 'hello'
    })).status
  t.equal(await send(0), 204)
  await remove(5)
  t.equal(await send(5), 404, 'a resumable upload')
  await nothing()
})

test('an upload whose row is deleted after its last transaction has begun is rejected, and leaves nothing', async (t) => {
  const { app, as, folder } = await open(t, document, { engine: await postgresSection(t) })
  const ada = as('acme')
  await notes(app, [1])
  const body = form([{ name: 'entityType', value: 'notes' }, { name: 'entityId', value: '1' }, file(Buffer.alloc(MB))])
  const rest = await half(ada, 'POST', '/files/upload', body, formHeaders)
  await until('the upload is running', async () => (await rows(app))['pending'] === 1)
  const { ended } = await app.db.transaction().execute(async (holder) => {
    await waitForWrites(holder, tenantRef('acme'))
    const ended = rest()
    await untilBlocked(app.db, ended)
    t.equal((await ada.ask('DELETE /notes/1')).status, 200)
    return { ended }
  })
  t.equal(await ended, 409)
  await until('nothing remains', async () => JSON.stringify([await onDisk(folder), await rows(app)]) === '[[],{}]')
  t.same(await storage(app, 'acme'), { booked: 0, reserved: 0, shown: 0 })
})

test('a file that a workflow step stores while its row is deleted is removed', async (t) => {
  const { app, as, folder } = await open(t, document)
  const ada = as('acme')
  await notes(app, [1])
  const { body: { id } } = await ada.upload([file('hello'), { name: 'entityType', value: 'notes' }, { name: 'entityId', value: '1' }])
  // A pipe in place of the original: its bytes arrive when the test writes them.
  const original = `${folder}/acme/${String(id)}`
  await rm(original)
  execFileSync('mkfifo', [original])
  const pipe = await openFile(original, 'r+')
  const copied = ada.ask(`POST /copy/${String(id)}`)
  await until('the copy is running', async () => (await rows(app))['pending'] === 1)
  t.equal((await ada.ask('DELETE /notes/1')).status, 200)
  await pipe.write('hello')
  await pipe.close()
  t.equal((await copied).status, 409)
  await until('nothing remains', async () => JSON.stringify([await onDisk(folder), await rows(app)]) === '[[],{}]')
  t.same(await storage(app, 'acme'), { booked: 0, reserved: 0, shown: 0 })
})

test("a deleted row's file stays unreadable if the sweep fails midway", async (t) => {
  const opened = await open(t, document)
  const { app, as, folder } = opened
  const ada = as('acme')
  await notes(app, [1])
  const { body: { id } } = await ada.upload([file('x'), { name: 'entityType', value: 'notes' }, { name: 'entityId', value: '1' }])
  t.equal((await ada.ask('DELETE /notes/1')).status, 200)
  const dbFor = (tenant: string) => app.engine.kyselyFor(tenantRef(tenant))
  const objects = createLocalStore(folder)
  const failing = {
    reserve: app.usage.reserve,
    free: async () => {
      throw new Error('the server ends')
    }
  }
  await createRemoval({
    objects,
    store: createFileStore(app.db, dbFor),
    parts: createFileParts(objects, dbFor),
    transforms: { deleteObjects: async () => {} },
    dbFor,
    usage: () => failing,
    emitter: () => null,
    now: Date.now,
    log: app.log
  }).sweep()
  t.equal(await app.files.get('acme', String(id)), null)
  t.equal((await ada.ask(`GET /files/${String(id)}`)).status, 404)
  await until(
    'a later sweep removes it',
    async () =>
      JSON.stringify([await onDisk(folder), await rows(app), await storage(app, 'acme')]) === '[[],{},{"booked":0,"reserved":0,"shown":0}]'
  )
})
