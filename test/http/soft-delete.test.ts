/** Soft-deleted rows over HTTP: only a DELETE marks them, and `?hard=true` removes them. */
import { test } from 'tap'
import type { TestDocument } from '../helpers/server.js'
import { testServer } from '../helpers/server.js'
import { caller, refused } from './caller.js'

const byId = '{{params.id}}'
const document: TestDocument = {
  tables: { sd: { tenantScoped: true, softDelete: true, columns: { id: { type: 'integer', primaryKey: true }, t: { type: 'text' } } } },
  routes: [
    { method: 'get', path: '/sd', queries: [{ table: 'sd', operation: 'select', order: { column: 'id' } }] },
    { method: 'post', path: '/sd', queries: [{ table: 'sd', operation: 'insert' }] },
    { method: 'put', path: '/sd', queries: [{ table: 'sd', operation: 'upsert' }] },
    { method: 'patch', path: '/sd/:id', queries: [{ table: 'sd', operation: 'update', id: byId }] },
    { method: 'patch', path: '/copy/:id', queries: [{ table: 'sd', operation: 'update', id: byId, data: '{{body.record}}' }] },
    {
      method: 'delete',
      path: '/sd/:id',
      softDelete: { enabled: true, allowHardDelete: true },
      queries: [{ table: 'sd', operation: 'delete', id: byId }]
    }
  ]
}

test('soft delete', async (t) => {
  const app = await testServer(t, document, { tenants: ['one', 'two'] })

  await t.test('a caller cannot write deleted or deleted_at', async (t) => {
    const ask = caller(t, app, { tenant: 'one' })
    await ask('POST /sd', { body: { id: 1, t: 'kept' } })
    for (const sent of [{ deleted: true }, { deleted: false }, { deleted_at: null }, { t: 'x', deleted_at: '2026-01-01T00:00:00Z' }]) {
      const name = 'deleted' in sent ? 'deleted' : 'deleted_at'
      const wholes = [['PATCH /sd/1', sent, `/body/${name}`], ['PATCH /copy/1', { record: sent }, `/body/record/${name}`]] as const
      const rows = [['POST /sd', { id: 2, ...sent }, `/body/${name}`], ['POST /sd', [{ id: 3 }, { id: 4, ...sent }], `/body/1/${name}`], [
        'PUT /sd',
        { id: 1, ...sent },
        `/body/${name}`
      ]] as const
      for (const [target, body, path] of [...wholes, ...rows]) {
        const response = await ask(target, { body })
        refused(t, response, 400, 'VALIDATION_FAILED', `${target} ${JSON.stringify(body)}`)
        t.strictSame(response.body.details, [{
          path,
          message: 'marks a soft-deleted row: only a `delete` with `softDelete` can set it',
          keyword: 'readOnly'
        }])
      }
    }
    t.match((await ask('GET /sd')).body.data, [{ id: 1, t: 'kept', deleted: false, deleted_at: null }])
    t.equal((await ask('GET /sd')).body.data?.length, 1)
  })

  await t.test('?hard=true removes a soft-deleted row, and its key is free again', async (t) => {
    const [one, two] = [caller(t, app, { tenant: 'one' }), caller(t, app, { tenant: 'two' })]
    for (const ask of [one, two]) {
      await ask('POST /sd', { body: { id: 7 } })
      t.match((await ask('DELETE /sd/7')).body, { success: true, softDeleted: true })
    }
    refused(t, await one('POST /sd', { body: { id: 7 } }), 409, 'CONFLICT')
    t.strictSame((await one('DELETE /sd/7?hard=true')).body, { success: true })
    t.equal((await one('POST /sd', { body: { id: 7, t: 'new' } })).status, 201)
    refused(t, await two('POST /sd', { body: { id: 7 } }), 409, 'CONFLICT', "another tenant's row still exists")
  })
})
