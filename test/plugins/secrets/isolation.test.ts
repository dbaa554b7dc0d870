import { sql } from 'kysely'
import { test } from 'tap'
import { noActor } from '../../../lib/database/audit.js'
import { secretText } from '../../helpers/log-scan.js'
import { postgresSection } from '../../helpers/postgres.js'
import { open, valuesOf } from './app.js'

const mine = secretText('the value that acme stored')
const other = secretText('another value that acme stored')
const theirs = secretText('the value that globex stored')

test("a ciphertext in the row of another tenant, key or version has no value, and the tenant's other secrets work", async (t) => {
  const engine = await postgresSection(t)
  const lines: string[] = []
  const { app, as } = await open(t, engine, { tenants: { acme: 'pro', globex: 'pro' }, onLog: (line) => lines.push(line) })
  for (const [key, value] of [['a', mine], ['b', other], ['c', mine]]) await as('acme')('POST /tenant/secrets', { body: { key, value } })
  for (const key of ['a', 'c']) await as('globex')('POST /tenant/secrets', { body: { key, value: theirs } })
  const run = async (statement: ReturnType<typeof sql>, tenant: string) => {
    await statement.execute(app.db)
    // As after any change; the attacker waits a minute.
    await app.events.change({ topic: 'secrets', tenant }, async () => {})
  }

  await run(
    sql`update tenantry.secrets set value = (select value from tenantry.secrets where tenant_id = 'acme' and key = 'a') where tenant_id = 'globex' and key = 'a'`,
    'globex'
  )
  t.same(await valuesOf(app, 'globex'), { c: theirs }, "another tenant's")
  t.equal(await app.secrets.get('globex', 'a'), undefined)
  t.same(await app.secrets.accepted('globex', 'a'), [])
  await run(
    sql`update tenantry.secrets set previous_value = (select value from tenantry.secrets where tenant_id = 'acme' and key = 'c'), previous_version = 1, previous_valid_until = now() + interval '1 day' where tenant_id = 'globex' and key = 'c'`,
    'globex'
  )
  t.same(await app.secrets.accepted('globex', 'c'), [theirs], 'nor as a previous value')
  await run(
    sql`insert into tenantry.secret_earlier_values select 'globex', key, version, value, now() + interval '1 day' from tenantry.secrets where tenant_id = 'acme' and key = 'c'`,
    'globex'
  )
  t.same(await app.secrets.accepted('globex', 'c'), [theirs], 'nor as an earlier one')

  await run(
    sql`update tenantry.secrets set value = (select value from tenantry.secrets where tenant_id = 'acme' and key = 'a') where tenant_id = 'acme' and key = 'b'`,
    'acme'
  )
  t.same(await valuesOf(app, 'acme'), { a: mine, c: mine }, "another key's")
  await run(sql`update tenantry.secrets set version = 2 where tenant_id = 'acme' and key = 'c'`, 'acme')
  t.same(await valuesOf(app, 'acme'), { a: mine }, 'another version')
  await run(
    sql`update tenantry.secrets set value = set_byte(value, 40, 255 - get_byte(value, 40)) where tenant_id = 'acme' and key = 'a'`,
    'acme'
  )
  t.same(await valuesOf(app, 'acme'), {}, 'a modified one')
  await run(sql`update tenantry.secrets set value = '\\x01' where tenant_id = 'acme'`, 'acme')
  t.same(await valuesOf(app, 'acme'), {}, 'an invalid one')

  const errors = lines.filter((line) => line.includes('a secret cannot be decrypted'))
  t.ok(errors.some((line) => /"tenant":"globex","key":"a"/.test(line)))
  t.ok(errors.every((line) => JSON.parse(line).level === 50))
  t.match(await as('acme')('GET /tenant/secrets'), { status: 200, body: { secrets: [{ key: 'a' }, { key: 'b' }, { key: 'c' }] } })
  t.match(await as('acme')('POST /tenant/secrets', { body: { key: 'b', value: other } }), { status: 200 })
  t.same(await valuesOf(app, 'acme'), { b: other }, 'storing it again repairs it')
})

test('the database contains no value in plain text, in any encoding', async (t) => {
  const engine = await postgresSection(t)
  const { app, as } = await open(t, engine, { tenants: { acme: 'pro' } })
  await as('acme')('POST /tenant/secrets', { body: { key: 'a', value: mine } })
  await as('acme')('POST /tenant/secrets/a/rotate', { body: { newValue: other, gracePeriodDays: 5 } })
  const { rows: [row] } = await sql<
    { all: string }
  >`select json_agg(s)::text || (select json_agg(a)::text from tenantry.audit_log a) as all from tenantry.secrets s`.execute(app.db)
  for (const value of [mine, other]) {
    for (const form of ['utf8', 'hex', 'base64'] as const) t.notOk(row?.all.includes(Buffer.from(value).toString(form)), form)
  }
})

test("a deleted tenant's secrets are deleted, also from caches", async (t) => {
  const { app, as } = await open(t, await postgresSection(t), { tenants: { acme: 'pro' } })
  await as('acme')('POST /tenant/secrets', { body: { key: 'a', value: mine } })
  t.same(await valuesOf(app, 'acme'), { a: mine })
  app.secrets.accessed('acme', ['a'])
  await app.tenants.delete('acme')
  t.same(await valuesOf(app, 'acme'), {})
  t.same(await app.secrets.list('acme'), [], 'unwritten uses cause no failure')
  await t.rejects(app.secrets.put('acme', { key: 'a', value: mine }, noActor), { code: 'TENANTRY_TENANT_UNKNOWN' })
})
