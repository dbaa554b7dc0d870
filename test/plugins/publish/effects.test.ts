import type { FastifyInstance } from 'fastify'
import { test } from 'tap'
import { testApp } from '../../helpers/app.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { testServer } from '../../helpers/server.js'
import { bearer } from '../../helpers/tokens.js'

const tables = {
  notes: {
    tenantScoped: true,
    columns: {
      id: { type: 'integer', primaryKey: true },
      title: { type: 'text', notNull: true },
      parent: { type: 'integer', references: 'notes.id' }
    }
  }
} as const
const ops = bearer({ role: 'admin', sub: 'ops' })

const poster = (app: FastifyInstance) => async (url: string, body?: unknown, headers: Record<string, string> = ops) => {
  const response = await app.inject({ method: 'POST', url, headers, ...body !== undefined && { payload: Object(body) } })
  return { status: response.statusCode, body: response.json() }
}

test('publishing works with row-level security, cached routes and webhooks, for two tenants', async (t) => {
  const { connectionString, admin, query } = await postgresDatabase(t, { role: 'owner' })
  const app = await testServer(t, {
    tables,
    queue: { workers: 0 },
    webhooks: [{ name: 'all', url: 'https://example.com/hook', events: ['entity.*'] }],
    routes: [{
      method: 'GET',
      path: '/notes',
      cache: { enabled: true, ttl: 60 },
      queries: [{ table: 'notes', operation: 'select', order: { column: 'id' } }]
    }]
  }, {
    engine: { provider: 'postgres', postgres: Object.assign({ connectionString, rowLevelSecurity: true }) },
    tenants: ['acme', 'globex']
  })
  const post = poster(app)
  const entity = (tenant: string, data: object) => post('/publish/entity', { table: 'notes', data }, { ...ops, 'x-tenant-id': tenant })
  const titles = async (tenant: string) =>
    (await app.inject({ url: '/notes', headers: bearer({ tenant_id: tenant }) })).json().data.map(({ title }: { title: string }) => title)

  await t.test('a published record is visible at once, to its tenant', async (t) => {
    t.strictSame([await titles('acme'), await titles('globex')], [[], []])
    t.match(await entity('acme', { id: 1, title: 'of acme' }), { status: 201, body: { data: { tenant_id: 'acme' } } })
    t.strictSame([await titles('acme'), await titles('globex')], [['of acme'], []])
    t.match(await entity('globex', { id: 1, title: 'of globex' }), { status: 201 })
    t.strictSame([await titles('acme'), await titles('globex')], [['of acme'], ['of globex']])
    t.match(await entity('globex', { id: 2, title: 'x', parent: 1 }), { status: 201 })
    t.match(
      await entity('acme', { id: 3, title: 'x', parent: 2 }),
      { status: 400, body: { code: 'TENANTRY_CONSTRAINT_VIOLATED' } },
      "a reference to another tenant's row"
    )
  })

  await t.test('webhooks receive events of writes only', async (t) => {
    t.match(await admin('select tenant_id, type, subject from tenantry.webhook_events order by place'), [
      { tenant_id: 'acme', type: 'entity.created', subject: 'notes:1' },
      { tenant_id: 'globex', type: 'entity.created', subject: 'notes:1' },
      { tenant_id: 'globex', type: 'entity.created', subject: 'notes:2' }
    ])
    t.match(await admin("select tenant_id, target from tenantry.audit_log where action = 'publish.entity' order by id"), [
      { tenant_id: 'acme', target: 'notes:1' },
      { tenant_id: 'globex', target: 'notes:1' },
      { tenant_id: 'globex', target: 'notes:2' }
    ])
  })

  await t.test('verify checks the isolation of tenants', async (t) => {
    const check = async () => {
      const { ready, checks } = (await post('/publish/verify')).body
      return { ready, ...checks.find(({ name }: { name: string }) => name === 'rowLevelSecurity') }
    }
    t.match(await check(), { ready: true, ok: true, message: 'The policies of every table of tenants are active.' })
    await query('alter table notes no force row level security')
    t.match(await check(), { ready: false, ok: false, message: /on\. Tables of tenants without active policies: notes\. To .*tenantry migrate/ })
    await app.inject({ method: 'POST', url: '/migration/apply', headers: ops })
    t.match(await check(), { ready: true, ok: true })
  })

  await t.test("only the platform's administrator can publish, and others learn nothing about their bodies", async (t) => {
    const callers = [[undefined, 401], [bearer({ tenant_id: 'acme' }), 403], [bearer({ role: 'admin', tenant_id: 'acme' }), 403], [
      bearer({ tenant_id: 'acme', permissions: ['*'] }),
      403
    ], [bearer({ role: 'user' }), 403]] as const
    for (const [headers, status] of callers) {
      for (
        const [url, body] of [['/publish/init', { bad: 1 }], ['/publish/verify', { bad: 1 }], ['/publish/entity', {
          table: 'nowhere',
          data: {}
        }], ['/publish/entity', { table: 'notes', data: { nothing: 1 } }]] as const
      ) {
        const response = await post(url, body, headers ?? {})
        t.equal(response.status, status, url)
        const { details = [], ...others } = response.body
        t.strictSame(Object.keys(others).sort(), ['code', 'error', 'message', 'requestId'])
        t.match(details, status === 403 ? [{ path: '', keyword: 'role' }] : { length: 0 })
      }
    }
    t.equal(
      (await post('/publish/entity', { table: 'notes', data: { id: 9, title: 'x' } }, { ...ops, 'x-tenant-id': 'nobody' })).status,
      404
    )
    // The other server deletes it, and its announcement has not arrived yet.
    await query("update tenantry.tenants set status = 'deleting' where id = 'globex'")
    t.match(await entity('globex', { id: 9, title: 'late' }), { status: 404, body: { code: 'TENANTRY_TENANT_UNKNOWN' } })
    t.strictSame(await query('select id from notes where id = 9'), [], 'a write that comes too late is rolled back')
    await query("update tenantry.tenants set status = 'active' where id = 'globex'")
    await app.tenants.update('globex', { status: 'suspended' })
    t.equal((await entity('globex', { id: 9, title: 'x' })).status, 201, 'a suspended tenant')
  })
})

test('the plugin works in its own app, with its own schema, and reports a lost database', async (t) => {
  const { connectionString, query } = await postgresDatabase(t)
  const { app } = await testApp(t, {
    engine: { provider: 'postgres', postgres: { connectionString, schema: 'app' } },
    plugins: { database: { tables }, publish: {}, cache: {} },
    tenants: ['acme']
  })
  const post = poster(app)
  t.match(await post('/publish/entity', { table: 'notes', data: { id: 1, title: 'One' } }, { ...ops, 'x-tenant-id': 'acme' }), {
    status: 201,
    body: { success: true, table: 'notes', data: { id: 1 } }
  })
  t.match(await post('/publish/verify'), { status: 200, body: { ready: true } })
  await query('drop schema app cascade')
  const { body: { sql } } = await post('/publish/entity', { table: 'pages', data: { a: 1 } })
  t.match(sql, /^begin;\ncreate schema "app";\ncreate table "app"."pages" /)
  await query(sql)
  t.match(await post('/publish/entity', { table: 'pages', data: { a: 1 } }), { status: 201, body: { data: { a: 1 } } })
  await app.engine.close()
  t.match(await post('/publish/verify'), {
    status: 200,
    body: { ready: false, checks: [{ name: 'database', ok: false, message: /does not respond/ }, { name: 'cache', ok: true }] }
  })
  t.match(await post('/publish/init', { checkTables: ['notes'] }), { status: 503, body: { code: 'TENANTRY_DATABASE_UNAVAILABLE' } })
  t.match(await post('/publish/entity', { table: 'nowhere', data: {} }), { status: 503 })
})
