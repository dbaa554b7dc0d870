/** A value outside a column's bounds is rejected with its field, before the database sees it. */
import { test } from 'tap'
import { fitsNumeric } from '../../lib/queries/json-value.js'
import { postgresDatabase } from '../helpers/postgres.js'
import { type TestDocument, testServer } from '../helpers/server.js'
import { caller, refused } from './caller.js'

const routes = [
  {
    method: 'get',
    path: '/parts',
    queries: [{
      table: 'parts',
      operation: 'select',
      filters: [{ column: 'code', operator: 'eq', value: '{{query.code}}', optional: true }, {
        column: 'price',
        operator: 'lt',
        value: '{{query.below}}',
        optional: true
      }]
    }]
  },
  { method: 'post', path: '/parts', queries: [{ table: 'parts', operation: 'insert' }] },
  {
    method: 'post',
    path: '/coded',
    queries: [{ table: 'parts', operation: 'insert', data: { id: '{{body.id}}', code: '{{body.text}}' } }]
  },
  { method: 'patch', path: '/parts/:id', queries: [{ table: 'parts', operation: 'update', id: '{{params.id}}' }] }
] satisfies NonNullable<TestDocument['routes']>

test("a value outside its column's bounds is rejected with its field", async (t) => {
  const { connectionString, query } = await postgresDatabase(t)
  await query('create domain short as varchar(3)')
  await query(
    'create table parts (tenant_id text not null, id integer not null, code varchar(5), mark char(2), note short, tags varchar(4)[], grid varchar(4)[][], price numeric(5, 2), amounts numeric(3, 1)[], round numeric(2, -3), free numeric, primary key (tenant_id, id))'
  )
  const app = await testServer(t, { routes }, { engine: { provider: 'postgres', postgres: { connectionString } }, tenants: ['a', 'b'] })
  const ask = caller(t, app, { tenant: 'a' })
  t.match(await ask('POST /parts', { body: { id: 0, code: 'first', price: 1 } }), { status: 201 })

  const wrong: Readonly<Record<string, readonly [message: RegExp, ...values: unknown[]]>> = {
    code: [/at most 5 characters/, 'sixsix', '\u{1F600}'.repeat(6), `${' '.repeat(5)}x`],
    mark: [/at most 2 characters/, 'abc'],
    note: [/at most 3 characters/, 'abcd'],
    tags: [/at most 4 characters/, ['ok', 'wrong']],
    grid: [/at most 4 characters/, ['ok', 'wrong'], [['a'], ['wrong']]],
    price: [/rounded to 2 decimal places, is less than 10\^3/, 1000, '1000', 999.995, -1000, '1e3', '99999999999999999999'],
    amounts: [/less than 10\^2/, [1, 100]],
    round: [/rounded to -3 decimal places, is less than 10\^5/, 99_500, 100_000]
  }
  for (const [column, [message, ...values]] of Object.entries(wrong)) {
    for (const value of values) {
      const writes = [
        ['POST /parts', { id: 1, [column]: value }, `/body/${column}`],
        ['POST /parts', [{ id: 1 }, { id: 2, [column]: value }], `/body/1/${column}`],
        ['PATCH /parts/0', { [column]: value }, `/body/${column}`]
      ] as const
      for (const [target, body, path] of writes) {
        const response = await ask(target, { body })
        refused(t, response, 400, 'VALIDATION_FAILED', `${target} ${JSON.stringify(body)}`)
        t.match(response.body.details, [{ path, message }])
      }
    }
  }
  t.match((await ask('POST /coded', { body: { id: 1, text: 'sixsix' } })).body, {
    details: [{ path: '/body/text', message: /"code" must be a string of at most 5 characters/, keyword: 'maxLength' }]
  })
  t.match((await ask('POST /parts', { body: { id: 1, code: 'a\0b' } })).body, {
    details: [{ path: '/body/code', message: /must not contain the character NUL/ }]
  })
  t.match((await ask('GET /parts?code=a%00')).body, { details: [{ path: '/query/code', message: /must not contain the character NUL/ }] })
  t.strictSame((await ask('GET /parts')).body.data?.map(({ id }) => id), [0], 'nothing was written')

  const right = {
    code: '\u{1F600}'.repeat(5),
    mark: 'a',
    note: 'abc   ',
    tags: ['four', null],
    price: '999.994',
    amounts: [99.94],
    round: 99_499,
    free: '1e100'
  }
  t.match(await ask('POST /parts', { body: { id: 5, ...right } }), {
    status: 201,
    body: { code: right.code, price: 999.99, round: 99_000, note: 'abc' }
  })
  t.match(await ask('POST /parts', { body: [{ id: 6, ...right }, { id: 7, ...right }] }), { status: 201 })
  t.match(await caller(t, app, { tenant: 'b' })('POST /parts', { body: { id: 6, code: '12345  ' } }), {
    status: 201,
    body: { code: '12345' }
  }, 'trailing blanks are cut')
  t.strictSame((await ask('GET /parts?code=longer-than-five')).body.data, [], 'a filter may compare with a longer text')
  t.equal((await ask('GET /parts?below=1e9')).body.data?.length, 4)
})

test("bounds of numeric match PostgreSQL's", async (t) => {
  const { query } = await postgresDatabase(t)
  const numbers = [
    '0',
    '0.004',
    '0.5',
    '9',
    '9.4',
    '9.5',
    '9.949',
    '9.95',
    '-9.95',
    '99.94',
    '99.95',
    '994',
    '995',
    '999.99',
    '1e2',
    '1e-3',
    '.0099',
    '0.00994',
    '0.00995',
    '00012.30',
    '9.9e1',
    '9995e-2',
    '99949.99e-3',
    '1e30',
    '5e-30'
  ]
  for (const [precision, scale] of [[1, 0], [2, 1], [3, 1], [3, 3], [2, 4], [2, -1], [4, 2]] as const) {
    for (const number of numbers) {
      const accepted = await query(`select '${number}'::numeric(${precision}, ${scale})`).then(() => true, () => false)
      t.equal(fitsNumeric(number, precision, scale), accepted, `${number} in numeric(${precision}, ${scale})`)
    }
  }
})
