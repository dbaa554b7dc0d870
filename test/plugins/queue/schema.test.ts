import { test } from 'tap'
import { checkConfig } from '../../../lib/configuration/index.js'
import { createEngine } from '../../../lib/database/index.js'
import type { Route } from '../../../lib/schema/route.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { testDocument, testServer } from '../../helpers/server.js'
import { bearer } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { queueApp } from './app.js'

test('a role with only row permissions can send and run jobs', async (t) => {
  const { connectionString, admin, name } = await postgresDatabase(t)
  const owner = await createEngine({ provider: 'postgres', postgres: { connectionString }, migrate: 'auto' })
  await owner.close()
  const role = `${name}_clerk`
  await admin(`create role ${role} login;
    grant usage on schema tenantry, tenantry_queue to ${role};
    grant select, insert, update, delete on all tables in schema tenantry, tenantry_queue to ${role}`)
  t.teardown(() => admin(`drop owned by ${role}; drop role ${role}`))
  const address = connectionString.replace('postgres:postgres@', `${role}:${role}@`)
  t.not(address, connectionString)
  let seen = 0
  const { app, run } = await queueApp(t, { provider: 'postgres', postgres: { connectionString: address } }, (app) => {
    app.queue.define('work', { retryDelay: 0 }, async ({ attempt }) => {
      seen++
      if (attempt === 1) throw new Error('once')
    })
    app.queue.every('work', 86_400)
  })
  t.same(await run('select current_user::text as role'), [{ role }])
  await app.queue.send('work', { tenant: 'a', data: {} })
  await until(
    'both were run, and run again',
    async () => seen === 4 && (await run("select from tenantry_queue.job where state = 'completed'")).length === 2
  )
  await app.close()
})

test('no configured route reaches the jobs, of the platform or of a tenant', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const engine = { provider: 'postgres', postgres: { connectionString } } as const
  const route = (table: string, select = '*'): Route => ({
    method: 'get',
    path: '/jobs',
    queries: [{ table, operation: 'select', select }]
  })
  const app = await testServer(t, { tables: { notes: { columns: { id: { type: 'integer', primaryKey: true } }, tenantScoped: true } } }, {
    engine,
    tenants: ['a']
  })
  const save = (document: object) =>
    app.inject({ method: 'POST', url: '/tenant/config', headers: bearer({ role: 'admin', tenant_id: 'a' }), payload: document })
  t.equal((await save({ routes: [route('notes')] })).statusCode, 200, 'a valid route is saved')
  for (
    const [table, select] of [['tenantry_queue.job'], ['job'], ['"tenantry_queue"."job"'], ['notes', '*, job(*)'], [
      'notes',
      '*, tenantry_queue.job(*)'
    ]] as const
  ) {
    t.equal((await save({ routes: [route(table, select)] })).statusCode, 400, `${table} ${select ?? ''} of a tenant`)
    await t.rejects(testServer(t, { routes: [route(table, select)] }, { engine }), {
      name: 'ConfigError',
      message: /\/routes\/0\/queries\/0/
    }, `${table} ${select ?? ''} of the platform`)
  }
  for (const schema of ['tenantry', 'tenantry_queue']) {
    t.throws(
      () => checkConfig(testDocument({}, { provider: 'postgres', postgres: { connectionString, schema } as { connectionString: string } })),
      { name: 'ConfigError', message: /\/postgres\/schema.*reserved/ }
    )
  }
})
