/** Values of a body keep their JSON type, whether or not the route declares its request. */
import { test } from 'tap'
import type { TestDocument } from '../helpers/server.js'
import { testServer } from '../helpers/server.js'
import { caller, refused } from './caller.js'

const columns = {
  id: { type: 'integer', primaryKey: true },
  t: { type: 'text' },
  flag: { type: 'boolean' },
  day: { type: 'date' },
  at: { type: 'timestamptz' },
  ratio: { type: 'double precision' },
  price: { type: 'numeric' },
  big: { type: 'bigint' },
  numbers: { type: 'integer[]' }
} as const
const document: TestDocument = {
  tables: { it: { tenantScoped: true, columns } },
  routes: [
    { method: 'post', path: '/it', queries: [{ table: 'it', operation: 'insert' }] },
    { method: 'patch', path: '/it/:id', queries: [{ table: 'it', operation: 'update', id: '{{params.id}}' }] },
    {
      method: 'put',
      path: '/it',
      queries: [{ table: 'it', operation: 'upsert', id: '{{body.id}}', data: { t: '{{body.t}}', flag: '{{body.flag}}' } }]
    },
    {
      method: 'put',
      path: '/url/:id',
      queries: [{
        table: 'it',
        operation: 'upsert',
        id: '{{params.id}}',
        data: { flag: '{{query.flag}}', day: '{{query.day}}', ratio: '{{query.ratio}}' }
      }]
    }
  ]
}

test('values of a body', async (t) => {
  const ask = caller(t, await testServer(t, document, { tenants: ['one'] }), { tenant: 'one' })
  await ask('POST /it', { body: { id: 1 } })

  await t.test('bodies are not coerced: a value of another JSON type is a 400 with its place', async (t) => {
    const wrong: [name: keyof typeof columns, value: unknown][] = [
      ['t', 7],
      ['t', true],
      ['flag', 'true'],
      ['flag', 1],
      ['day', 'yesterday'],
      ['day', 'January 8, 1999'],
      ['day', 20260101],
      ['at', 'now'],
      ['at', 'tomorrow 12:00'],
      ['ratio', '1.5'],
      ['numbers', ['1', 2]],
      ['numbers', [[1], ['2']]],
      ['numbers', '{1,2}'],
      ['big', 'x'],
      ['price', '1,5']
    ]
    for (const [name, value] of wrong) {
      for (
        const [target, body, path] of [['PATCH /it/1', { [name]: value }, `/body/${name}`], ['POST /it', [{ id: 8 }, {
          id: 9,
          [name]: value
        }], `/body/1/${name}`]] as const
      ) {
        const response = await ask(target, { body })
        refused(t, response, 400, 'VALIDATION_FAILED', `${target} ${name} ${JSON.stringify(value)}`)
        t.match(response.body.details, [{ path, keyword: 'type' }])
      }
    }
    refused(t, await ask('POST /it', { body: { id: '7' } }), 400, 'VALIDATION_FAILED', 'a text for an integer')
    for (const body of [{ id: '1', t: 'x' }, { id: 1, t: 1 }, { id: 1, flag: 'true' }]) {
      refused(t, await ask('PUT /it', { body }), 400, 'VALIDATION_FAILED', 'a template of the body')
    }
  })

  await t.test('values of the right JSON type are written', async (t) => {
    const body = {
      t: '7',
      flag: true,
      day: '2026-01-31',
      at: '2026-01-31T12:00:00.5+02:00',
      ratio: 1.5,
      price: 2.5,
      big: 3,
      numbers: [1, null, 2]
    }
    t.match((await ask('PATCH /it/1', { body })).body, { ...body, at: '2026-01-31T10:00:00.5+00:00' })
    const { body: read } = await ask('PATCH /it/1', { body: { price: '12.50', big: '9007199254740993', at: '2026-01-31 12:00:00+00' } })
    t.match(read, { at: '2026-01-31T12:00:00+00:00' }, 'wide numbers may also be texts')
    t.equal((await ask('PUT /it', { body: { id: 2, t: 'x', flag: false } })).status, 200)
  })

  await t.test("texts of a URL are converted to their column's type", async (t) => {
    t.match((await ask('PUT /url/5?flag=true&day=2026-01-31&ratio=1.5')).body, { id: 5, flag: true, day: '2026-01-31', ratio: 1.5 })
  })
})
