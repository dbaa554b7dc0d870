/** Tables: a tenant's routes reach tenant tables and read shared ones, however a name is spelled. */
import { test } from 'tap'
import { createWorld, marker, save, trySave } from './world.js'

const names = [
  // The server's own tables, and PostgreSQL's.
  'tenantry.tenants',
  'tenantry.secrets',
  'tenantry.tenant_configs',
  'tenantry.documents',
  'tenantry.migrations',
  'tenants',
  'secrets',
  'api_keys',
  'tenant_configs',
  'migrations',
  'pg_catalog.pg_authid',
  'pg_catalog.pg_tables',
  'pg_shadow',
  'pg_authid',
  'pg_class',
  'pg_stat_activity',
  'pg_settings',
  'information_schema.tables',
  'information_schema.columns',
  'tables',
  'columns',
  // Platform tables that are not shared.
  'prices',
  'Prices',
  'PRICES',
  '"prices"',
  'public.prices',
  '"public"."prices"',
  'prices ',
  ' prices',
  'prices--',
  'prices;',
  'prices/**/',
  '(select * from prices)',
  'prices p',
  'prices\u0000',
  'ｐrices',
  '__proto__',
  'constructor',
  'toString',
  '',
  // Tenant tables under other names.
  'Notes',
  'NOTES',
  '"notes"',
  'public.notes',
  '"public"."notes"',
  '"Notes"',
  'notes ',
  'notes n',
  'notes as n',
  'notes; drop table notes',
  'notes where true',
  'only notes',
  'Tenantry.Secrets',
  '"tenantry"."secrets"',
  'TENANTRY.tenants',
  'tenantry . tenants',
  'postgres.public.notes',
  'pg_catalog."pg_authid"'
]

test("a tenant's routes reach no other tables", async (t) => {
  const { attacker, victim } = await createWorld(t)
  for (const operation of ['select', 'insert', 'update', 'upsert', 'delete']) {
    for (const table of names) {
      const query = {
        table,
        operation,
        ...(operation !== 'select' && operation !== 'insert' && { filters: [{ column: 'id', value: 'x' }] }),
        ...(operation !== 'select' && operation !== 'delete' && { data: { name: 'x' } })
      }
      const { status, body } = await attacker('POST /tenant/config', {
        body: { routes: [{ method: 'post', path: '/x', queries: [query] }] }
      })
      if (status !== 400 || body['code'] !== 'TENANTRY_CONFIG_INVALID') t.fail(`${operation} on ${JSON.stringify(table)}: ${status}`)
    }
  }
  t.pass('none of them is a tenant table')

  for (const operation of ['insert', 'update', 'upsert', 'delete']) {
    const query = {
      table: 'countries',
      operation,
      filters: [{ column: 'code', value: '{{params.code}}' }],
      ...(operation !== 'delete' && { data: { code: 'x', name: 'x' } })
    }
    t.notOk(
      await trySave(t, attacker, { routes: [{ method: 'post', path: '/x/:code', queries: [query] }] }, `${operation} on a shared table`),
      `${operation} on a shared table`
    )
  }
  await save(t, attacker, [{ method: 'get', path: '/countries', queries: [{ table: 'countries', operation: 'select' }] }])
  t.match(await attacker('GET /countries'), { status: 200 }, 'a shared table can be read')

  const places = [
    { select: '*, prices(*)' },
    { select: 'id, tenantry.secrets(*)' },
    { select: '*, "prices"(*)' },
    { select: 'id, (select amount from prices)' },
    { select: 'count(*)' },
    { select: 'id, pg_sleep(10)' },
    { select: 'xmin' },
    { select: 'tableoid' },
    { select: 'ctid' },
    { filters: [{ column: 'prices.amount', value: 1 }] },
    { filters: [{ column: '1=1; --', value: 1 }] },
    { filters: [{ column: 'id"', value: 1 }] },
    { filters: [{ column: 'id', operator: '= 1 or', value: 1 }] },
    { filters: [{ column: 'xmin', value: 1 }] },
    { order: [{ column: 'pg_sleep(10)' }] },
    { order: [{ column: 'id; drop table notes' }] },
    { alias: '"; drop table notes; --"' },
    { alias: '__proto__' }
  ]
  for (const place of places) {
    const saved = await trySave(t, attacker, {
      routes: [{ method: 'get', path: '/x', queries: [{ table: 'notes', operation: 'select', ...place }] }]
    }, JSON.stringify(place))
    if (saved) t.equal((await attacker('GET /x')).status, 200, `${JSON.stringify(place)} is treated as a plain name`)
  }

  await save(t, victim, [{ method: 'post', path: '/docs', firebaseQueries: [{ collection: 'docs', operation: 'add' }] }])
  await victim('POST /docs', { body: { name: marker } })
  for (const collection of ['docs', 'Docs', 'victim/docs', '../victim/docs', "docs' or true --", 'tenantry.documents', '{{query.c}}']) {
    const saved = await trySave(t, attacker, {
      routes: [{ method: 'get', path: '/x', firebaseQueries: [{ collection, operation: 'query' }] }]
    }, `the collection ${collection}`)
    if (saved) t.notMatch((await attacker('GET /x?c=docs')).text, marker)
  }
})
