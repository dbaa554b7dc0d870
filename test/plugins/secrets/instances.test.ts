import type { FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import { test } from 'tap'
import { noActor } from '../../../lib/database/audit.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { createSecretCipher, keyIdOf } from '../../../lib/secrets/cipher.js'
import { makeMasterKey } from '../../../lib/secrets/master-key.js'
import { masterKeys } from '../../../lib/secrets/master-key.js'
import { rekeySecrets } from '../../../lib/secrets/rekey.js'
import { fakeClock } from '../../helpers/clock.js'
import { secretText } from '../../helpers/log-scan.js'
import { postgresSection } from '../../helpers/postgres.js'
import { until } from '../../helpers/until.js'
import { open, valuesOf } from './app.js'

const [one, two, three] = [
  secretText('the first value of several servers'),
  secretText('the second value of several servers'),
  secretText('the third value of several servers')
]

/** Resolves when the server receives a change of the tenant's secrets. */
function heard (app: FastifyInstance, tenant: string): Promise<void> {
  return new Promise((resolve) => {
    const end = app.events.on('secrets', (changed) => {
      if (changed !== tenant) return
      end()
      resolve()
    })
  })
}

test('a change on one server is served by the other; uses of both are counted; expiry is audited once', async (t) => {
  const engine = await postgresSection(t)
  const clock = fakeClock()
  const { app: here, as } = await open(t, engine, { now: clock.now, tenants: { acme: 'pro', globex: 'pro' } })
  const { app: there } = await open(t, engine, { now: clock.now })
  const acme = as('acme')
  t.same(await valuesOf(there, 'acme'), {})
  const steps: [target: string, body: object | undefined, values: Record<string, string>][] = [
    ['POST /tenant/secrets', { key: 'a', value: one }, { a: one }],
    ['POST /tenant/secrets', { key: 'a', value: two }, { a: two }],
    ['POST /tenant/secrets/a/rotate', { newValue: three, gracePeriodDays: 1 }, { a: three }],
    ['DELETE /tenant/secrets/a', undefined, {}],
    ['POST /tenant/secrets', { key: 'a', value: one, expiresAt: new Date(clock.now() + 1000).toISOString() }, { a: one }]
  ]
  for (const [target, body, values] of steps) {
    const notified = heard(there, 'acme')
    t.ok((await acme(target, body === undefined ? {} : { body })).status < 300, target)
    t.same(await valuesOf(here, 'acme'), values, `${target}: at once where it was changed`)
    await notified
    t.same(await valuesOf(there, 'acme'), values, `${target}: on the other server`)
  }
  for (const app of [here, there]) for (let index = 0; index < 10; index++) app.secrets.accessed('acme', ['a'])
  await there.secrets.list('acme')
  t.match(await here.secrets.list('acme'), [{ key: 'a', accessCount: 20 }])

  clock.forward(1000)
  t.same(await Promise.all([here, there].map((app) => valuesOf(app, 'acme'))), [{ a: null }, { a: null }])
  await Promise.all([here, there].map((app) => app.secrets.audit('acme', { limit: 1, offset: 0 })))
  const { rows } = await sql`select action from tenantry.audit_log where action = 'secret.expire'`.execute(here.db)
  t.equal(rows.length, 1)
})

test('twenty concurrent secrets on two servers fill the plan exactly', async (t) => {
  const engine = await postgresSection(t)
  const { app: here } = await open(t, engine, { tenants: { acme: 'free' } })
  const { app: there } = await open(t, engine)
  const results = await Promise.allSettled(
    Array.from(
      { length: 20 },
      (_, index) => (index % 2 === 0 ? here : there).secrets.put('acme', { key: `k${index}`, value: one }, noActor)
    )
  )
  t.equal(results.filter(({ status }) => status === 'fulfilled').length, 5)
  t.equal((await there.secrets.list('acme')).length, 5)
})

test('unwritten uses are written when the server stops', async (t) => {
  const engine = await postgresSection(t)
  const { app: here } = await open(t, engine, { tenants: { acme: 'free' } })
  const { app: there } = await open(t, engine)
  await here.secrets.put('acme', { key: 'a', value: one }, noActor)
  await here.secrets.get('acme', 'a')
  await here.close()
  t.match(await there.secrets.list('acme'), [{ key: 'a', accessCount: 1 }])
})

test('a rekey moves every value, including previous ones and one that a server writes meanwhile', async (t) => {
  const engine = await postgresSection(t)
  const [old, current] = [makeMasterKey(), makeMasterKey()]
  const { app: before } = await open(t, engine, { masterKey: old.text, tenants: { acme: 'team', globex: 'pro' } })
  for (let index = 0; index < 120; index++) {
    await before.secrets.put('acme', { key: `k${String(index).padStart(3, '0')}`, value: `${one} ${index}` }, noActor)
  }
  await before.secrets.put('globex', { key: 'g', value: one }, noActor)
  await before.secrets.rotate('globex', { key: 'g', newValue: two, gracePeriodDays: 30 }, noActor)
  await before.secrets.rotate('globex', { key: 'g', newValue: three, gracePeriodDays: 1 }, noActor)

  const both = { masterKey: current.text, previousKeys: old.text }
  const { app: serving } = await open(t, engine, both)
  const cipher = createSecretCipher(masterKeys(current.key, [old.key]))
  // It holds the row, while the rekey, which has read it, waits to write.
  let rekeying: Promise<unknown> = Promise.resolve()
  await serving.events.change({ topic: 'secrets', tenant: 'acme' }, async (transaction) => {
    const value = createSecretCipher(masterKeys(old.key)).encrypt({ tenant: tenantRef('acme'), key: 'k050', version: 2 }, three)
    await transaction.updateTable('tenantry.secrets').set({ value, version: 2 }).where('tenant_id', '=', 'acme').where('key', '=', 'k050')
      .execute()
    rekeying = rekeySecrets(before.db, cipher)
    // Limited to this database and the rekey's update, since other tests run on the same server.
    await until('the rekey waits for the row', async () => {
      const { rows } =
        await sql`select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like 'update "tenantry"."secrets"%'`
          .execute(before.db)
      return rows.length > 0
    })
  })
  const result = await rekeying
  t.match(result, { moved: 122, unreadable: { length: 0 }, unfinished: false })
  t.same(await rekeySecrets(before.db, cipher), { moved: 0, unreadable: [], unfinished: false }, 'it can be repeated')

  const { rows } = await sql<
    { value: Buffer }
  >`select value from tenantry.secrets union all select previous_value from tenantry.secrets where previous_value is not null union all select value from tenantry.secret_earlier_values`
    .execute(before.db)
  t.same([...new Set(rows.map(({ value }) => keyIdOf(value)))], [current.key.id])
  const { app: after } = await open(t, engine, { masterKey: current.text })
  const values = await valuesOf(after, 'acme')
  t.equal(Object.keys(values).length, 120)
  t.equal(values['k050'], three, 'a concurrent write is not lost')
  t.equal(values['k119'], `${one} 119`)
  t.same(await after.secrets.accepted('globex', 'g'), [three, two, one])
  await t.rejects(
    open(t, engine, { masterKey: old.text }),
    new RegExp(`encrypted under the master key ${current.key.id}`),
    'a server with only the old key is rejected'
  )
})

test('a server whose keys can read no stored secret is rejected; one whose keys read some names the missing ones', async (t) => {
  const engine = await postgresSection(t)
  const [one, other] = [makeMasterKey(), makeMasterKey()]
  const { app } = await open(t, engine, { masterKey: one.text, tenants: { acme: 'pro' } })
  await app.secrets.put('acme', { key: 'a', value: two }, noActor)
  const error = await open(t, engine, { masterKey: other.text }).then(() => t.fail('it started'), (error: Error) => error)
  t.match(error, {
    message:
      `the secrets in the database were encrypted under the master key ${one.key.id}, but this server has ${other.key.id}: set SECRETS_MASTER_KEY, or SECRETS_PREVIOUS_KEYS, to the key that encrypted them`
  })

  const { app: both } = await open(t, engine, { masterKey: other.text, previousKeys: one.text })
  await both.secrets.put('acme', { key: 'b', value: three }, noActor)
  t.same(await valuesOf(both, 'acme'), { a: two, b: three })
  const lines: string[] = []
  const { app: partly } = await open(t, engine, { masterKey: other.text, onLog: (line) => lines.push(line) })
  t.same(await valuesOf(partly, 'acme'), { b: three })
  t.ok(lines.some((line) => line.includes(`"masterKeyIds":["${one.key.id}"]`)))

  const cipher = createSecretCipher(masterKeys(other.key))
  t.match(await rekeySecrets(partly.db, cipher), {
    moved: 0,
    unfinished: false,
    unreadable: [{ tenant: 'acme', key: 'a', reason: new RegExp(one.key.id) }]
  })
})
