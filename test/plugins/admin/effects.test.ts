import { CompiledQuery } from 'kysely'
import { test } from 'tap'
import { eventsTable } from '../../../lib/database/outbox.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { caller, refused } from '../../http/caller.js'

test("with row-level security: only the caller's tenant's rows, dropped cached responses, and webhook events", async (t) => {
  const { connectionString } = await postgresDatabase(t, { role: 'owner' })
  const postgres = { connectionString, rowLevelSecurity: true }
  const app = await testServer(t, {
    databaseProvider: 'postgres',
    postgres,
    tables: {
      notes: { tenantScoped: true, softDelete: true, columns: { id: { type: 'integer', primaryKey: true }, title: { type: 'text' } } },
      countries: { columns: { code: { type: 'text', primaryKey: true } } }
    },
    cache: { enabled: true, provider: 'memory' },
    // No sender is running, so that the events stay.
    queue: { workers: 0 },
    webhooks: [{
      name: 'all',
      url: 'https://hooks.example.com/',
      events: ['entity.deleted', 'entity.updated'],
      secret: 'a secret of a webhook'
    }],
    routes: [{
      method: 'GET',
      path: '/notes',
      requireAuth: true,
      cache: { enabled: true, ttl: 3600 },
      queries: [{ table: 'notes', operation: 'select', select: 'id' }]
    }]
  }, { engine: { provider: 'postgres', postgres }, tenants: ['acme', 'globex'] })
  const run = async (text: string) => (await app.db.executeQuery<Record<string, unknown>>(CompiledQuery.raw(text))).rows
  await run("insert into notes (id, tenant_id, title) values (1, 'acme', 'one'), (2, 'acme', 'two'), (3, 'globex', 'three')")
  await run("insert into countries values ('at')")
  const [acme, globex, platform] = [{ tenant_id: 'acme' }, { tenant_id: 'globex' }, {}].map((claims) =>
    caller(t, app, { token: signToken({ role: 'admin', sub: 'ada', ...claims }) })
  )
  if (acme === undefined || globex === undefined || platform === undefined) throw new Error('three callers')
  const idsOf = async (ask: typeof acme, target: string, tenant?: string) =>
    (await ask(target, tenant === undefined ? {} : { tenant })).body.data?.map(({ id }) => id)

  await t.test('an administrator reaches the rows of one tenant, which the platform names in X-Tenant-ID', async (t) => {
    t.same(await idsOf(acme, 'GET /admin/entities/notes'), [1, 2])
    t.same(await idsOf(platform, 'GET /admin/entities/notes', 'globex'), [3])
    t.same((await platform('GET /admin/entities/countries')).body.data, [{ code: 'at' }])
    t.match((await platform('GET /admin/entities/countries/at', { tenant: 'acme' })).body, { code: 'at' })
    for (
      const target of [
        'GET /admin/entities/notes',
        'GET /admin/entities/notes/1',
        'DELETE /admin/entities/notes/1',
        'DELETE /admin/entities/notes/1?hard=true',
        'POST /admin/entities/notes/1/restore'
      ]
    ) {
      const response = await platform(target)
      refused(t, response, 400, 'TENANT_REQUIRED', target)
      t.match(response.body['message'], /one tenant at a time.*X-Tenant-ID/)
    }
    for (
      const target of [
        'GET /admin/entities/notes/3',
        'DELETE /admin/entities/notes/3',
        'DELETE /admin/entities/notes/3?hard=true',
        'POST /admin/entities/notes/3/restore'
      ]
    ) refused(t, await acme(target), 404, 'NOT_FOUND', target)
  })

  await t.test("each write drops only its tenant's cached responses", async (t) => {
    const listed = async (ask: typeof acme) => {
      const { headers, body } = await ask('GET /notes')
      return [headers['x-cache'], body.data?.map(({ id }) => id)]
    }
    const warm = async () => {
      for (const ask of [acme, globex]) await listed(ask)
      t.same([await listed(acme), await listed(globex)].map(([cached]) => cached), ['HIT', 'HIT'])
    }
    const steps: [target: string, tenant: string | undefined, expected: number[]][] = [
      ['DELETE /admin/entities/notes/1', undefined, [2]],
      ['POST /admin/entities/notes/1/restore', undefined, [1, 2]],
      ['DELETE /admin/entities/notes/2?hard=true', 'acme', [1]]
    ]
    for (const [target, tenant, expected] of steps) {
      await warm()
      t.equal((await (tenant === undefined ? acme : platform)(target, tenant === undefined ? {} : { tenant })).status, 200, target)
      t.same(await listed(acme), ['MISS', expected], target)
      t.same(await listed(globex), ['HIT', [3]])
    }
    await warm()
    refused(t, await acme('POST /admin/entities/notes/1/restore'), 409, 'STATE_CONFLICT')
    t.same(await listed(acme), ['HIT', [1]], 'a failed write drops nothing')
  })

  await t.test('a write sends an event of its tenant, and a failed write sends none', async (t) => {
    t.same(await run(`select tenant_id, type, subject, data -> 'record' ->> 'title' as title from ${eventsTable} order by at`), [
      { tenant_id: 'acme', type: 'entity.deleted', subject: 'notes:1', title: 'one' },
      { tenant_id: 'acme', type: 'entity.updated', subject: 'notes:1', title: 'one' },
      { tenant_id: 'acme', type: 'entity.deleted', subject: 'notes:2', title: 'two' }
    ])
  })

  await t.test("audit entries are in the tenant's log, and those of platform tables in the platform's", async (t) => {
    const entries = await run(
      "select tenant_id, action, target, address is null as hidden from tenantry.audit_log where action in ('entity.delete', 'entity.restore') order by created_at, id"
    )
    t.same(entries, [
      { tenant_id: 'acme', action: 'entity.delete', target: 'notes:1', hidden: false },
      { tenant_id: 'acme', action: 'entity.restore', target: 'notes:1', hidden: false },
      { tenant_id: 'acme', action: 'entity.delete', target: 'notes:2', hidden: true }
    ])
    t.equal((await platform('DELETE /admin/entities/countries/at?hard=true', { tenant: 'acme' })).status, 200)
    t.same(await run("select tenant_id, target from tenantry.audit_log where target = 'countries:at' and action = 'entity.delete'"), [{
      tenant_id: '',
      target: 'countries:at'
    }])
  })

  await t.test('a cascade from a platform row drops cached responses of all affected tenants', async (t) => {
    await run("insert into countries values ('ch')")
    await run('alter table notes add country text references countries (code) on delete cascade')
    await run("insert into notes (id, tenant_id, title, country) values (8, 'acme', 'eight', 'ch'), (9, 'globex', 'nine', 'ch')")
    await app.engine.refresh()
    for (const ask of [acme, globex]) {
      for (const expected of ['MISS', 'HIT']) t.equal((await ask('GET /notes?fresh=1')).headers['x-cache'], expected)
    }
    t.equal((await platform('DELETE /admin/entities/countries/ch?hard=true')).status, 200)
    t.same([await idsOf(acme, 'GET /notes?fresh=1'), await idsOf(globex, 'GET /notes?fresh=1')], [[1], [3]])
  })

  await t.test('a write is rolled back if its audit entry fails', async (t) => {
    await run("alter table tenantry.audit_log add constraint none check (action <> 'entity.delete') not valid")
    t.ok((await acme('DELETE /admin/entities/notes/1')).status >= 400)
    t.same(await idsOf(acme, 'GET /admin/entities/notes'), [1])
    t.equal((await run(`select 1 from ${eventsTable}`)).length, 5, 'no event either, except those of the countries')
  })

  await t.test("query shapes that callers choose do not evict the platform's statements, and few are kept", async (t) => {
    const names: string[] = []
    const { text } = app.engine
    t.teardown(() => {
      app.engine.text = text
    })
    app.engine.text = (statement, values, options) => {
      names.push(statement.name ?? '')
      return text(statement, values, options)
    }
    for (const select of ['id', 'title', 'id,title', 'title,id']) await acme(`GET /admin/entities/notes?select=${select}`)
    await platform('GET /admin/entities/countries?select=code')
    t.equal(names.length, 5)
    t.ok(names.every((name) => name.startsWith('t_')), names.join())
  })
})
