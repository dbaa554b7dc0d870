import Fastify from 'fastify'
import { sql } from 'kysely'
import { test } from 'tap'
import configRoutes from '../../../plugins/config-routes/index.js'
import database from '../../../plugins/database/index.js'
import rateLimit from '../../../plugins/rate-limit/index.js'
import { testApp } from '../../helpers/app.js'
import { forEachEngine, postgresDatabase } from '../../helpers/postgres.js'

test('two apps on one database both receive events of app.events as soon as they are ready', (t) =>
  forEachEngine(t, async (t, section) => {
    const open = async () => (await testApp(t, { engine: section, plugins: { database: {} } })).app
    const left = await open()
    // The embedded engine belongs to one process.
    const right = section.provider === 'postgres' ? await open() : left
    const heard = new Promise<string>((resolve) => {
      right.events.on('tenant', resolve)
    })
    const gaps: string[] = []
    right.events.onGap(() => gaps.push('gap'))
    await left.events.change({ topic: 'tenant', tenant: 'acme' }, async (transaction) => {
      await transaction.insertInto('tenantry.tenants').values({ id: 'acme', name: 'Acme' }).execute()
    })
    t.equal(await heard, 'acme')
    t.strictSame(await right.db.selectFrom('tenantry.tenants').select('name').execute(), [{ name: 'Acme' }])
    t.strictSame(gaps, [])
  }))

const notes = { notes: { columns: { id: { type: 'integer', primaryKey: true } } } } as const

test('a section postgres without a provider selects PostgreSQL', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const app = Fastify({ pluginTimeout: 0 })
  t.teardown(() => app.close())
  await app.register(database, { postgres: { connectionString } })
  t.equal(app.engine.kind, 'postgres')
  const { rows } = await sql<{ name: string }>`select current_database() as name`.execute(app.db)
  t.ok(connectionString.endsWith(`/${rows[0]?.name ?? ''}`), `${rows[0]?.name ?? 'no database'} is the section's database`)
})

test('tables without a provider are migrated in memory, and their routes serve', async (t) => {
  const app = Fastify({ pluginTimeout: 0 })
  t.teardown(() => app.close())
  await app.register(database, { tables: notes })
  await app.register(rateLimit)
  await app.register(configRoutes, { routes: [{ path: '/notes', method: 'get', queries: [{ table: 'notes', operation: 'select' }] }] })
  const response = await app.inject('/notes')
  t.equal(response.statusCode, 200, response.body)
})

test('a provider that contradicts the sections, or does not exist, is an error at start', async (t) => {
  const postgres = { connectionString: 'postgres://127.0.0.1:1/none' }
  const wrong: [object, RegExp][] = [
    [{ provider: 'supabase', postgres }, /provider: expected one of postgres, embedded/],
    [{ provider: 'embedded', postgres }, /there is also a section "postgres"/],
    [{ embedded: {}, postgres }, /set one of them as `provider`/]
  ]
  for (const [options, message] of wrong) {
    const app = Fastify({ pluginTimeout: 0 })
    t.teardown(() => app.close())
    await t.rejects(async () => {
      await app.register(database, Object.assign({}, options))
    }, { message })
  }
})
