/** Tenants whose ids are one value in a table: two spellings of a UUID. */
import { test } from 'tap'
import { postgresDatabase } from '../helpers/postgres.js'
import { type TestDocument, testServer } from '../helpers/server.js'
import { signToken } from '../helpers/tokens.js'
import { caller, refused } from './caller.js'

const own = 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'
const others = [own.toUpperCase(), own.replaceAll('-', '')]
const expected = 'The id of the tenant does not fit the table, whose column "tenant_id" requires a UUID in lower case with hyphens'

const sql = 'create table notes (id integer primary key, tenant_id uuid not null, title text, deleted boolean not null default false, deleted_at timestamptz)'

const mcp = { url: 'http://mcp.example.com' }
const document: TestDocument = {
  migrate: 'auto',
  mcp,
  realtime: { tables: { notes: {} } },
  routes: [
    { path: '/notes', method: 'get', mcp: { name: 'list_notes' }, queries: [{ table: 'notes', operation: 'select' }] },
    { path: '/notes', method: 'post', queries: [{ table: 'notes', operation: 'insert' }] },
    { path: '/notes/:id', method: 'delete', queries: [{ table: 'notes', operation: 'delete', id: '{{params.id}}' }] }
  ]
}

for (const rowLevelSecurity of [false, true]) {
  test(`another spelling of a tenant's id is refused by every endpoint, rowLevelSecurity: ${rowLevelSecurity}`, async (t) => {
    const { connectionString, admin } = await postgresDatabase(t, { role: 'owner', sql })
    const postgres = { connectionString, rowLevelSecurity }
    const app = await testServer(t, document, {
      engine: { provider: 'postgres', postgres },
      tenants: [own, ...others]
    })
    const as = (tenant: string) => caller(t, app, { token: signToken({ sub: 'ada', role: 'admin', tenant_id: tenant }) })
    const platform = caller(t, app, { token: signToken({ sub: 'ops', role: 'admin' }) })
    t.match(await as(own)('POST /notes', { body: { id: 1, title: 'secret' } }), { status: 201, body: { tenant_id: own } })

    for (const tenant of others) {
      const ask = as(tenant)
      const responses = [
        await ask('GET /notes'),
        await ask('POST /notes', { body: { id: 2, title: 'x' } }),
        await ask('DELETE /notes/1'),
        await ask('GET /admin/entities/notes'),
        await ask('GET /admin/entities/notes/1'),
        await ask('DELETE /admin/entities/notes/1'),
        await ask('POST /admin/entities/notes/1/restore'),
        await platform('POST /publish/entity', { tenant, body: { table: 'notes', data: { id: 2, title: 'x' } } })
      ]
      for (const response of responses) {
        refused(t, response, 400, 'TENANT_INVALID')
        t.equal(response.body['message'], expected)
      }
      const tool = await ask('POST /mcp', {
        headers: { host: 'mcp.example.com', accept: 'application/json, text/event-stream' },
        body: { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'list_notes', arguments: {} } }
      })
      t.match(tool.text, /"isError":true/)
      t.match(tool.text, /requires a UUID in lower case with hyphens/)
      refused(t, await ask('GET /realtime/events?watch=notes'), 400, 'TENANT_INVALID')
    }

    t.match(await platform(`DELETE /tenants/${others[0]}`), { status: 200 })
    t.strictSame(await admin('select id, tenant_id, title from notes'), [{ id: 1, tenant_id: own, title: 'secret' }])
    t.match(await as(own)('GET /notes'), { body: { data: [{ title: 'secret' }] } })
    t.match(await platform('GET /admin/entities/notes/1', { tenant: own }), { body: { title: 'secret' } })
  })
}

test('a document whose table has a tenant of another type does not start', async (t) => {
  const { connectionString } = await postgresDatabase(t, {
    sql: `create collation nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
      create table notes (id integer primary key, tenant_id char(8) not null);
      create table loose (id integer primary key, tenant_id text collate nocase not null)`
  })
  const engine = { provider: 'postgres' as const, postgres: { connectionString } }
  const works = 'expected text or varchar with a deterministic collation, uuid, smallint, integer or bigint'
  const select = (table: string): TestDocument => ({ routes: [{ path: '/x', method: 'get', queries: [{ table, operation: 'select' }] }] })
  await t.rejects(testServer(t, select('notes'), { engine }), {
    name: 'ConfigError',
    message: `/routes/0/queries/0/table: the column "tenant_id" of "notes" has the type character: ${works}`
  })
  await t.rejects(testServer(t, select('loose'), { engine }), {
    message: `/routes/0/queries/0/table: the column "tenant_id" of "loose" has a nondeterministic collation: ${works}`
  })
  await t.rejects(testServer(t, { migrate: 'auto', realtime: { tables: { notes: {} } } }, { engine }), {
    message: `/realtime/tables/notes: the column "tenant_id" of "notes" has the type character: ${works}`
  })

  const app = await testServer(t, {}, { engine, tenants: ['acme'] })
  const ask = caller(t, app, { token: signToken({ sub: 'ops', role: 'admin' }), tenant: 'acme' })
  refused(t, await ask('GET /admin/entities/notes'), 400, 'VALIDATION_FAILED')
  const published = await ask('POST /publish/entity', { body: { table: 'notes', data: { id: 1 } } })
  refused(t, published, 400, 'VALIDATION_FAILED')
  t.match(published.body.details, [{ path: '/body/table', message: new RegExp(works) }])
})
