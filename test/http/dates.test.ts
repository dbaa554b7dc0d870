/** Dates of bodies are stored only if `/doc` describes them: `date` and `date-time`. */
import { Ajv2020 } from 'ajv/dist/2020.js'
import { default as formats } from 'ajv-formats'
import { test } from 'tap'
import { schemaWithoutReferences } from '../helpers/openapi.js'
import { testServer } from '../helpers/server.js'
import { caller, refused } from './caller.js'

test('a body cannot store a date that is not in the documented form', async (t) => {
  const app = await testServer(t, {
    tables: {
      terms: {
        tenantScoped: true,
        columns: { id: { type: 'integer', primaryKey: true }, day: { type: 'date' }, at: { type: 'timestamptz' } }
      }
    },
    routes: [
      { method: 'post', path: '/terms', queries: [{ table: 'terms', operation: 'insert' }] },
      {
        method: 'patch',
        path: '/terms/:id',
        queries: [{ table: 'terms', operation: 'update', id: '{{params.id}}', data: { at: '{{body.when}}' } }]
      },
      {
        method: 'get',
        path: '/terms',
        queries: [{ table: 'terms', operation: 'select', filters: [{ column: 'at', operator: 'lte', value: '{{query.until}}', optional: true }] }]
      }
    ]
  }, { tenants: ['acme'] })
  const ask = caller(t, app, { tenant: 'acme' })
  for (const odd of ['infinity', '-Infinity', '10000-01-01', '0044-03-15 BC', '020260-01-31']) {
    refused(t, await ask('POST /terms', { body: { id: 1, day: odd } }), 400, 'VALIDATION_FAILED', `a date ${odd}`)
    refused(t, await ask('POST /terms', { body: [{ id: 1, at: odd }] }), 400, 'VALIDATION_FAILED', `a time ${odd}`)
  }
  for (const [id, day] of ['2026-01-31', '0001-01-01', '9999-12-31'].entries()) {
    t.equal((await ask('POST /terms', { body: { id, day, at: day } })).status, 201, day)
  }
  refused(t, await ask('PATCH /terms/0', { body: { when: 'infinity' } }), 400, 'VALIDATION_FAILED')
  t.equal((await ask('PATCH /terms/0', { body: { when: '2026-01-31 12:00:00.5+02' } })).status, 200)
  const { text, body } = await ask('GET /terms?until=infinity')
  t.equal(body.data?.length, 3, 'a filter compares with infinity')
  const document = JSON.parse((await ask('GET /doc')).text)
  const schema = schemaWithoutReferences(document, document.paths['/terms'].get.responses['200'].content['application/json'].schema)
  const ajv = new Ajv2020({ strict: false })
  formats.default(ajv)
  t.ok(ajv.validate(Object(schema), JSON.parse(text)), ajv.errorsText())
})
