/** Inherited and partitioned tables: no route reaches another tenant's row through them. */
import { test } from 'tap'
import { ConfigError } from '../../lib/configuration/index.js'
import { postgresDatabase } from '../helpers/postgres.js'
import { type TestDocument, testServer } from '../helpers/server.js'
import { signToken } from '../helpers/tokens.js'
import { caller, refused } from './caller.js'

type Route = NonNullable<TestDocument['routes']>[number]
const list = (table: string): Route => ({
  method: 'get',
  path: `/${table}`,
  queries: [{ table, operation: 'select', order: { column: 'id' } }]
})
const tables = `
create table inh_parent (id int primary key, t text);
create table inh_child (tenant_id text not null) inherits (inh_parent);
create table scoped (id int, tenant_id text not null, t text);
create table scoped_more (extra text) inherits (scoped);
create table parts (id int, tenant_id text not null, t text, primary key (tenant_id, id)) partition by range (id);
create table parts_low partition of parts for values from (0) to (10);
create table parts_rest partition of parts default;
insert into inh_parent values (1, 'shared');
insert into inh_child values (2, 'of one', 'one'), (3, 'of two', 'two');
insert into scoped_more values (1, 'one', 'of one', 'x'), (2, 'two', 'of two', 'x');
insert into parts values (1, 'one', 'low'), (11, 'one', 'high'), (1, 'two', 'of two'), (12, 'two', 'of two');
`

test('inherited tables', async (t) => {
  const { connectionString, admin } = await postgresDatabase(t, { role: 'owner', sql: tables })
  for (
    const { name } of await admin(
      "select c.relname as name from pg_class c where c.relkind in ('r', 'p') and c.relnamespace = 'public'::regnamespace"
    )
  ) await admin(`grant all on ${String(name)} to public`)
  const postgres = { connectionString, rowLevelSecurity: true }
  const engine = { provider: 'postgres', postgres } as const

  await t.test('a route on a parent of a tenant table is a fault that names both tables', async (t) => {
    const routes: TestDocument['routes'] = [
      list('inh_parent'),
      {
        method: 'patch',
        path: '/inh_parent/:id',
        queries: [{ table: 'inh_parent', operation: 'update', id: '{{params.id}}', data: { t: 'x' } }]
      },
      { method: 'delete', path: '/inh_parent/:id', queries: [{ table: 'inh_parent', operation: 'delete', id: '{{params.id}}' }] }
    ]
    const error: unknown = await testServer(t, { routes, tenancy: { sharedTables: ['inh_parent'] } }, { engine }).catch((error: unknown) =>
      error
    )
    if (!(error instanceof ConfigError)) throw error
    t.strictSame(error.faults.map(({ pointer }) => pointer), [
      '/routes/0/queries/0/table',
      '/routes/1/queries/0/table',
      '/routes/2/queries/0/table'
    ])
    t.match(error.faults[0]?.message, /"inh_parent" reaches the rows of every tenant in "inh_child"/)
  })

  await t.test("a tenant's document cannot use a shared parent table", async (t) => {
    const app = await testServer(t, { tenancy: { sharedTables: ['inh_parent'] } }, { engine, tenants: ['one'] })
    const ask = caller(t, app, { token: signToken({ sub: 'u', tenant_id: 'one', role: 'admin' }) })
    const response = await ask('POST /tenant/config', { body: { routes: [list('inh_parent')] } })
    refused(t, response, 400, 'CONFIG_INVALID')
    t.match(response.text, /inh_child/)
  })

  await t.test("child tables and partitioned tables with a tenant column return only the tenant's rows", async (t) => {
    const app = await testServer(t, { routes: [list('inh_child'), list('scoped'), list('parts')] }, { engine, tenants: ['two'] })
    const ask = caller(t, app, { tenant: 'one' })
    t.match((await ask('GET /inh_child')).body.data, [{ id: 2, t: 'of one' }])
    t.match((await ask('GET /scoped')).body.data, [{ id: 1, t: 'of one' }])
    t.match((await ask('GET /parts')).body.data, [{ id: 1, t: 'low' }, { id: 11, t: 'high' }])
    for (const target of ['inh_child', 'scoped']) t.equal((await ask(`GET /${target}`)).body.data?.length, 1)
    t.equal((await ask('GET /parts')).body.data?.length, 2)
  })
})
