/** Files of rows whose keys are UUIDs or integers, which PostgreSQL reads in several spellings. */
import { Readable } from 'node:stream'
import { sql } from 'kysely'
import { test } from 'tap'
import type { TestDocument } from '../../helpers/server.js'
import { file, open, type Opened } from './app.js'

const own = 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'
const spelled = own.toUpperCase()

const document: TestDocument = {
  tables: {
    notes: { tenantScoped: true, columns: { id: { type: 'uuid', primaryKey: true } } },
    orders: { tenantScoped: true, columns: { id: { type: 'bigint', primaryKey: true } } }
  },
  files: { onEntityDelete: 'delete' },
  workflows: [{
    id: 'put',
    steps: [{
      id: 'a',
      type: 'storage',
      operation: 'put',
      params: { name: 'b.txt', contentType: 'text/plain', content: 'x', entityType: 'notes', entityId: '{{input.id}}' }
    }]
  }],
  routes: [
    { path: '/notes', method: 'post', queries: [{ table: 'notes', operation: 'insert' }] },
    { path: '/notes/:id', method: 'delete', queries: [{ table: 'notes', operation: 'delete', id: '{{params.id}}' }] },
    { path: '/orders', method: 'post', queries: [{ table: 'orders', operation: 'insert' }] },
    { path: '/orders/:id', method: 'delete', queries: [{ table: 'orders', operation: 'delete', id: '{{params.id}}' }] },
    { path: '/put/:id', method: 'post', workflow: { ref: 'put', input: { id: '{{params.id}}' } } }
  ]
}

const json = (body: unknown) => ({ headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })

async function attached ({ as }: Opened, entityType: string, entityId: string) {
  const entity = [{ name: 'entityType', value: entityType }, { name: 'entityId', value: entityId }]
  const { body } = await as('acme').upload([...entity, file('x')])
  return { id: String(body['id']), entityId: body['entityId'] }
}

test('files of a row are found, and deleted with it, in every spelling of its key', async (t) => {
  const opened = await open(t, document)
  const { app, as } = opened
  const ada = as('acme')
  t.equal((await ada.ask('POST /notes', json({ id: spelled }))).status, 201)
  t.equal((await ada.ask('POST /orders', json({ id: 7 }))).status, 201)

  const uploaded = await attached(opened, 'notes', spelled)
  t.equal(uploaded.entityId, own)
  const by = { sub: 'ada', actor: { userId: 'ada', address: null } }
  const details = { name: 'c.txt', entityType: 'notes', entityId: `{${own.replaceAll('-', '')}}` }
  const put = await app.files.put('acme', details, Readable.from([Buffer.from('x')]), by)
  t.equal(put.entityId, own)
  t.match((await ada.ask(`POST /put/${spelled}`)).text, `"entityId":"${own}"`)
  const order = await attached(opened, 'orders', '+007')
  t.equal(order.entityId, '7')

  for (const id of [own, spelled]) t.equal((await ada.ask(`GET /files/entity/notes/${id}`)).body.data?.length, 3, id)
  for (const id of ['7', '007']) t.equal((await ada.ask(`GET /files/entity/orders/${id}`)).body.data?.length, 1, id)
  t.equal((await app.files.list('acme', { type: 'notes', id: spelled }, { limit: 10, offset: 0 })).total, 3)

  t.equal((await ada.ask(`DELETE /notes/${spelled}`)).status, 200)
  t.equal((await ada.ask('DELETE /orders/7')).status, 200)
  for (const { id } of [uploaded, put, order]) t.equal((await ada.ask(`GET /files/${id}`)).status, 404)
})

test('a file keeps the id of an entity that is no key of a table', async (t) => {
  const opened = await open(t, document)
  for (const [type, id] of [['papers', spelled], ['papers', '007'], ['notes', 'cover'], ['orders', spelled], ['orders', '9'.repeat(25)]] as const) {
    t.equal((await attached(opened, type, id)).entityId, id, `${type} ${id}`)
    t.equal((await opened.as('acme').ask(`GET /files/entity/${type}/${id}`)).body.data?.length, 1)
  }
})

test('files of an earlier version are found by the id that was sent', async (t) => {
  const opened = await open(t, document)
  const { id } = await attached(opened, 'notes', own)
  await sql`update tenantry.files set entity_id = ${spelled} where id = ${id}::uuid`.execute(opened.app.db)
  t.match((await opened.as('acme').ask(`GET /files/entity/notes/${spelled}`)).body, { data: [{ id }], pagination: { total: 1 } })
})
