/** The size of data that a tenant's route builds from stored rows and a caller's values: more than the server can hold is rejected. */
import { test } from 'tap'
import { postgresSection } from '../../helpers/postgres.js'
import type { TestDocument } from '../../helpers/server.js'
import { testServer } from '../../helpers/server.js'
import { ask, save } from './document.js'

const uuid = { type: 'uuid', primaryKey: true, default: 'uuid()' } as const
const platform: TestDocument = {
  tables: {
    people: { tenantScoped: true, columns: { id: uuid, name: { type: 'text' } } },
    notes: { tenantScoped: true, columns: { id: uuid, text: { type: 'text' }, person_id: { type: 'uuid', references: 'people.id' } } }
  }
}
const million = 'x'.repeat(1_000_000)
const times = <Item>(length: number, item: (index: number) => Item): Item[] => Array.from({ length }, (_, index) => item(index))
const members = (count: number, value: unknown) => Object.fromEntries(times(count, (index) => [`f${index}`, value]))
const post = (path: string, route: object) => ({ path, method: 'post', requireAuth: true, ...route })
const get = (path: string, route: object) => ({ path, method: 'get', requireAuth: true, ...route })
const insert = (data: object, select = 'id') => [{ table: 'notes', operation: 'insert', data, select }]
const routes = [
  post('/notes', { queries: insert({ text: '{{body.text}}', person_id: '{{body.person}}' }) }),
  post('/people', { queries: [{ table: 'people', operation: 'insert' }] }),
  post('/bulk', { queries: [{ table: 'notes', operation: 'insert', select: 'id' }] }),
  get('/count', { queries: [{ table: 'notes', operation: 'select', limit: 1, select: 'id' }] }),
  get('/pages', { queries: [{ table: 'notes', operation: 'select', select: 'a:text, b:text' }] }),
  get('/several', { queries: times(2, (index) => ({ alias: `q${index}`, table: 'notes', operation: 'select', select: 'text' })) }),
  get('/computed', {
    queries: [{ table: 'notes', operation: 'select', select: 'text' }],
    transform: { fields: { a: 'item.text', b: 'item.text', ok: '1 + 1' } }
  }),
  get('/mapped', {
    queries: [{ table: 'notes', operation: 'select', select: 'text', limit: 5 }],
    response: members(5, '{{results.notes.data}}')
  }),
  get('/embed', { queries: [{ table: 'people', operation: 'select', select: 'id, notes(id)' }] }),
  get('/nested', { queries: [{ table: 'people', operation: 'select', select: 'id, notes(id, people(id, notes(id)))' }] }),
  post('/rename', {
    queries: [{
      table: 'notes',
      operation: 'update',
      filters: [{ not: { column: 'text', operator: 'is', value: null } }],
      data: { person_id: '{{body.person}}' },
      select: 'a:text, b:text'
    }]
  }),
  post('/echo', { response: members(450, '{{body.text}}') }),
  post('/text', { response: { all: '{{body.text}}'.repeat(450) } }),
  post('/whole', { response: members(100, '{{body.o}}') }),
  post('/fields', { response: Object.fromEntries(times(60, (index) => [`f${index}`, `{{body.f${index}}}`])) }),
  post('/row', { queries: insert({ text: '{{body.text}}'.repeat(450) }) }),
  post('/mirror', { queries: insert({ text: '{{body.text}}' }, 'text'), response: members(20, '{{results.notes.text}}') }),
  post('/document', { firebaseQueries: [{ collection: 'c', operation: 'add', data: members(300, '{{body.text}}') }] })
]

const tooLarge = { code: 'TENANTRY_ANSWER_TOO_LARGE', error: 'Bad Request' }

test('data that is too large is rejected, and the server continues', async (t) => {
  const engine = await postgresSection(t)
  const app = await testServer(t, platform, { engine, tenants: ['acme'] })
  const multiplied = await save(app, 'acme', {
    routes: [get('/x', { queries: [{ table: 'notes', operation: 'select', select: times(120, (index) => `a${index}:text`).join() }] })]
  })
  t.match(multiplied.json(), {
    code: 'TENANTRY_CONFIG_INVALID',
    details: [{ path: '/routes/0/queries/0/select', message: /at most 100, got 120/ }, {
      message: /names for one column.*: at most 2, got 120/
    }]
  })
  const saved = await save(app, 'acme', { routes })
  t.equal(saved.statusCode, 200, saved.payload)
  const refused = async (method: 'GET' | 'POST', url: string, payload?: object) => {
    const response = await ask(app, 'acme', method, url, payload)
    t.equal(response.statusCode, 400, `${method} ${url}: ${response.payload.slice(0, 200)}`)
    t.match(response.json(), tooLarge)
  }
  const served = async (method: 'GET' | 'POST', url: string, payload?: object): Promise<Record<string, unknown>> => {
    const response = await ask(app, 'acme', method, url, payload)
    t.ok(response.statusCode < 300, `${method} ${url}: ${response.payload.slice(0, 200)}`)
    return response.json()
  }
  const total = async (expected: number, message: string) =>
    t.match(await served('GET', '/count'), { pagination: { total: expected } }, message)

  // Templates that copy the request's values.
  const text = { text: million.slice(0, 900_000) }
  await refused('POST', '/echo', text)
  await refused('POST', '/text', text)
  await refused('POST', '/whole', { o: Object.fromEntries(times(9000, (index) => [`f${index}`, 'a value of some length'])) })
  await refused('POST', '/row', text)
  await refused('POST', '/document', text)
  await refused('POST', '/mirror', text)
  await total(0, 'a write whose response is rejected is rolled back')
  t.match(await served('POST', '/echo', { text: 'short' }), { f0: 'short', f449: 'short' })
  t.match(await served('POST', '/mirror', { text: 'short' }), { f0: 'short', f19: 'short' })
  t.equal(
    Object.keys(await served('POST', '/fields', members(60, million.slice(0, 15_000)))).length,
    60,
    'fields of one large body, each once'
  )

  // Rows that are large together.
  const { id: person } = await served('POST', '/people', { name: 'Ada' })
  for (let made = 0; made < 9; made++) await served('POST', '/notes', { text: million, person })
  await refused('GET', '/pages')
  await refused('GET', '/several')
  await refused('GET', '/mapped')
  const { id: other } = await served('POST', '/people', { name: 'Grace' })
  await refused('POST', '/rename', { person: other })
  t.match(await served('GET', '/embed'), {
    data: [{ id: person, notes: { length: 9 } }, { id: other, notes: [] }].toSorted((left, right) =>
      String(left.id) < String(right.id) ? -1 : 1
    )
  }, 'nothing was renamed')
  t.match((await ask(app, 'acme', 'GET', '/computed')).json(), {
    code: 'TENANTRY_EXPRESSION_LIMIT',
    details: [{ path: /^\/routes\/\d+\/transform\/fields\/[ab]$/ }]
  }, 'computed fields that are too large together are rejected')

  // Embedded rows, none of which is large.
  await served('POST', '/bulk', times(92, () => ({ person_id: person })))
  await refused('GET', '/nested')
  await served('GET', '/embed')
  await served('POST', '/bulk', times(900, () => ({ person_id: person })))
  await refused('GET', '/embed')
})
