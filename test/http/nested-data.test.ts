/** `data` with templates inside objects and texts: a missing value overwrites nothing. */
import { test } from 'tap'
import type { TestDocument } from '../helpers/server.js'
import { testServer } from '../helpers/server.js'
import { caller } from './caller.js'

const data = {
  meta: { k: '{{body.k}}', deep: { l: '{{body.l}}' } },
  t: 'x {{body.b}}',
  list: ['{{body.k}}'],
  fixed: { by: 'server', at: '{{body.at || "none"}}' }
}
const document: TestDocument = {
  tables: {
    it: {
      tenantScoped: true,
      columns: {
        id: { type: 'integer', primaryKey: true },
        meta: { type: 'jsonb' },
        t: { type: 'text', default: 'by default' },
        list: { type: 'jsonb' },
        fixed: { type: 'jsonb' }
      }
    }
  },
  routes: [
    { method: 'post', path: '/it', queries: [{ table: 'it', operation: 'insert', data: { id: '{{body.id}}', ...data } }] },
    { method: 'patch', path: '/it/:id', queries: [{ table: 'it', operation: 'update', id: '{{params.id}}', data }] },
    { method: 'put', path: '/it/:id', queries: [{ table: 'it', operation: 'upsert', id: '{{params.id}}', data }] },
    { method: 'post', path: '/docs/:id', firebaseQueries: [{ collection: 'docs', operation: 'create', docId: '{{params.id}}', data }] },
    { method: 'patch', path: '/docs/:id', firebaseQueries: [{ collection: 'docs', operation: 'update', docId: '{{params.id}}', data }] }
  ]
}
const full = { meta: { k: 1, deep: { l: 2 } }, t: 'x y', list: [1], fixed: { by: 'server', at: 'none' } }
const all = { k: 1, l: 2, b: 'y' }

test('templates inside objects and texts of data', async (t) => {
  const app = await testServer(t, document, { tenants: ['one'] })
  const ask = caller(t, app, { tenant: 'one' })
  const fieldsOf = ({ id: _id, tenant_id: _tenant, ...fields }: Record<string, unknown>) => fields

  await t.test('an update keeps a column if a template inside resolves to nothing', async (t) => {
    t.strictSame(fieldsOf((await ask('POST /it', { body: { id: 1, ...all } })).body), full)
    t.strictSame(fieldsOf((await ask('POST /docs/d1', { body: all })).body), full)
    for (const target of ['PATCH /it/1', 'PUT /it/1', 'PATCH /docs/d1']) {
      t.strictSame(fieldsOf((await ask(target, { body: {} })).body), full, `${target} without values`)
      t.strictSame(fieldsOf((await ask(target, { body: { k: 3 } })).body), { ...full, list: [3] }, `${target} with a part of an object`)
      t.strictSame(fieldsOf((await ask(target, { body: { k: 4, l: null } })).body), {
        ...full,
        meta: { k: 4, deep: { l: null } },
        list: [4]
      }, `${target} with null, which is a value`)
      t.strictSame(
        fieldsOf((await ask(target, { body: { ...all, at: 'now' } })).body),
        { ...full, fixed: { by: 'server', at: 'now' } },
        `${target} with all`
      )
      await ask(target, { body: all })
    }
  })

  await t.test('an insert uses the default if all templates inside resolve to nothing, and the remaining values otherwise', async (t) => {
    const fixed = { by: 'server', at: 'none' }
    t.strictSame(fieldsOf((await ask('POST /it', { body: { id: 2 } })).body), { meta: null, t: 'by default', list: null, fixed })
    t.strictSame(fieldsOf((await ask('POST /it', { body: { id: 3, k: 1 } })).body), {
      meta: { k: 1, deep: {} },
      t: 'by default',
      list: [1],
      fixed
    })
    t.strictSame(fieldsOf((await ask('PUT /it/4', { body: { k: 1 } })).body), { meta: null, t: 'by default', list: [1], fixed })
    t.strictSame(fieldsOf((await ask('POST /docs/d2', { body: {} })).body), { fixed })
  })
})
