/** A violated rule of a table is reported with its place in the request. */
import { test } from 'tap'
import { postgresDatabase } from '../helpers/postgres.js'
import type { TestDocument } from '../helpers/server.js'
import { testServer } from '../helpers/server.js'
import { signToken } from '../helpers/tokens.js'
import { caller, refused, type Request } from './caller.js'

const id = { type: 'uuid', primaryKey: true, default: 'uuid()' } as const
const unknownId = '00000000-0000-4000-8000-000000000000'

const document: TestDocument = {
  tables: {
    people: { columns: { id, name: { type: 'text' } } },
    notes: {
      columns: {
        id,
        title: { type: 'text', notNull: true },
        code: { type: 'text', unique: true },
        author_id: { type: 'uuid', references: 'people.id' }
      }
    }
  },
  routes: [
    { method: 'post', path: '/notes', queries: [{ table: 'notes', operation: 'insert' }] },
    { method: 'patch', path: '/notes/:id', queries: [{ table: 'notes', operation: 'update', id: '{{params.id}}' }] },
    { method: 'post', path: '/notes/:id', queries: [{ table: 'notes', operation: 'insert', id: '{{params.id}}' }] },
    { method: 'post', path: '/within', queries: [{ table: 'notes', operation: 'insert', data: '{{body.note}}' }] },
    {
      method: 'post',
      path: '/mapped',
      queries: [{ table: 'notes', operation: 'insert', data: { title: '{{body.name}}', code: '{{query.ref}}', author_id: unknownId } }]
    },
    { method: 'post', path: '/untitled', queries: [{ table: 'notes', operation: 'insert', data: { code: '{{body.code}}' } }] },
    { method: 'delete', path: '/people/:id', queries: [{ table: 'people', operation: 'delete', id: '{{params.id}}' }] },
    {
      method: 'post',
      path: '/pairs',
      queries: [
        { table: 'people', operation: 'insert', alias: 'person', data: { name: '{{body.name}}' } },
        {
          table: 'notes',
          operation: 'insert',
          alias: 'note',
          data: { title: 'x', code: '{{body.ref}}', author_id: '{{results.person.id}}' }
        }
      ]
    }
  ]
}

test('a violated constraint names its place in the request, like every other rejection', async (t) => {
  const ask = caller(t, await testServer(t, document))
  const { body: first } = await ask('POST /notes', { body: { title: 'one', code: 'taken' } })
  await ask('POST /notes', { body: { title: 'two', code: 'two' } })

  const cases: [target: string, request: Request, status: number, detail: string][] = [
    ['POST /notes', { body: { title: 'x', code: 'taken' } }, 409, '/body/code unique'],
    ['POST /notes', { body: { code: 'x' } }, 400, '/body/title required'],
    ['POST /notes', { body: { title: 'x', author_id: unknownId } }, 400, '/body/author_id foreignKey'],
    [`PATCH /notes/${String(first['id'])}`, { body: { code: 'two' } }, 409, '/body/code unique'],
    [`POST /notes/${String(first['id'])}`, { body: { title: 'x' } }, 409, '/params/id unique'],
    ['POST /within', { body: { note: { title: 'x', code: 'taken' } } }, 409, '/body/note/code unique'],
    ['POST /mapped', { body: {} }, 400, '/body/name required'],
    ['POST /mapped?ref=taken', { body: { name: 'x' } }, 409, '/query/ref unique'],
    ['POST /pairs', { body: { name: 'x', ref: 'taken' } }, 409, '/body/ref unique']
  ]
  for (const [target, request, status, detail] of cases) {
    const response = await ask(target, request)
    refused(t, response, status, status === 409 ? 'CONFLICT' : 'CONSTRAINT_VIOLATED', target)
    t.strictSame(response.body.details?.map(({ path, keyword }) => `${path} ${keyword}`), [detail], target)
  }
  t.match(
    (await ask('POST /mapped', { body: { name: 'x' } })).body.details,
    [{ path: '/author_id' }],
    'a value that the request did not contain is named by its column'
  )
  t.match(
    (await ask('POST /untitled', { body: { title: 'x' } })).body.details,
    [{ path: '/title', message: 'title must have a value, and the route gives it none' }],
    'a required column that the route leaves out is not a fault of the caller'
  )
  t.match((await ask('POST /notes', { body: [{ title: 'x', code: 'new' }, { title: 'x', code: 'taken' }] })).body.details, [{
    path: '/code'
  }], 'the database does not report the index within an array')

  const { body: { person } } = await ask('POST /pairs', { body: { name: 'x', ref: 'x' } })
  const removal = await ask(`DELETE /people/${String(Object(person).id)}`)
  refused(t, removal, 400, 'CONSTRAINT_VIOLATED')
  t.match(removal.body.details, [{ path: '/author_id', message: /notes/ }])
})

test('a required column that a step of a workflow leaves out is a fault of the step, not of a route', async (t) => {
  const steps = [{ id: 'note', type: 'database', table: 'notes', operation: 'insert', data: { code: 'x' } }] as const
  const app = await testServer(t, {
    ...document,
    workflows: [{ id: 'write', steps: [...steps] }],
    routes: [{ method: 'post', path: '/write', workflow: { steps: [...steps] } }]
  }, { tenants: ['acme'] })
  const ask = caller(t, app, { token: signToken({ sub: 'ada', tenant_id: 'acme', role: 'admin' }) })
  const details = [{ path: '/title', message: 'title must have a value, and the step "note" gives it none', keyword: 'required' }]
  for (const [target, body] of [['POST /agent/workflow/run', { ref: 'write', async: false }], ['POST /write', {}]] as const) {
    const response = await ask(target, { body })
    refused(t, response, 400, 'CONSTRAINT_VIOLATED', target)
    t.match(response.body, { details }, target)
  }
})

test('an upsert of one key in two spellings is not reported as a missing reference', async (t) => {
  const { connectionString, query } = await postgresDatabase(t)
  await query(`create table rooms (id integer primary key, tenant_id text not null);
    create table slots (tenant_id text not null, at timestamptz, room_id integer references rooms, primary key (tenant_id, at));
    insert into rooms values (1, 'own'), (2, 'other')`)
  const routes: TestDocument['routes'] = [{ method: 'put', path: '/slots', queries: [{ table: 'slots', operation: 'upsert' }] }]
  const app = await testServer(t, { routes }, { engine: { provider: 'postgres', postgres: { connectionString } }, tenants: ['own'] })
  const ask = caller(t, app, { tenant: 'own' })
  const [at, same, later] = ['2026-01-01T00:00:00Z', '2026-01-01T01:00:00+01:00', '2026-01-02T00:00:00Z']

  const twice = await ask('PUT /slots', { body: [{ at, room_id: 1 }, { at: same, room_id: 1 }] })
  refused(t, twice, 400, 'CONSTRAINT_VIOLATED')
  t.equal(twice.body.details, undefined)
  for (const body of [{ at, room_id: 2 }, [{ at, room_id: 1 }, { at: later, room_id: 2 }]]) {
    const foreign = await ask('PUT /slots', { body })
    refused(t, foreign, 400, 'CONSTRAINT_VIOLATED')
    t.match(foreign.body.details, [{ keyword: 'foreignKey', message: 'the reference by room_id in slots would have no matching row' }])
  }
  t.strictSame(await query('select * from slots'), [])
  t.equal((await ask('PUT /slots', { body: [{ at, room_id: 1 }, { at: later, room_id: null }] })).status, 200)
})
