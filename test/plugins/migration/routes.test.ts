import type { FastifyInstance } from 'fastify'
import { type Test, test } from 'tap'
import type { EngineOptions } from '../../../lib/database/index.js'
import type { MigrationOptions } from '../../../plugins/migration/index.js'
import { testApp } from '../../helpers/app.js'
import { nameAfterSystem } from '../../helpers/migrations.js'
import { forEachEngine, postgresDatabase } from '../../helpers/postgres.js'
import { bearer } from '../../helpers/tokens.js'

const tables = {
  authors: { columns: { id: { type: 'uuid', primaryKey: true, default: 'uuid()' } } },
  notes: { columns: { id: { type: 'uuid', primaryKey: true }, author_id: { type: 'uuid', references: 'authors.id' } }, tenantScoped: true }
} as const
const admin = bearer({ role: 'admin' })

async function open (t: Test, options: EngineOptions, own: MigrationOptions = {}): Promise<FastifyInstance> {
  const { migrate, ...engine } = options
  return (await testApp(t, { engine, plugins: { database: { migrate, tables }, migration: own } })).app
}

test('an administrator reads the missing migrations, applies them, and applies nothing the second time', (t) =>
  forEachEngine(t, async (t, section) => {
    const app = await open(t, { ...section, migrate: 'manual' })
    // A new embedded database has the server's tables.
    for (const schema of ['tenantry', 'tenantry_queue']) await app.db.schema.dropSchema(schema).ifExists().cascade().execute()
    const get = async (url: string) => (await app.inject({ url, headers: admin })).json()
    const apply = async () => (await app.inject({ method: 'POST', url: '/migration/apply', headers: admin })).json()

    t.match(await get('/migration/status'), {
      ready: false,
      tables: { 'tenantry.migrations': false, 'tenantry.tenants': false, authors: false, notes: false }
    })
    const overview = await get('/migration')
    t.strictSame(Object.keys(overview), ['sql', 'tables', 'instructions'])
    t.match(overview.sql, /create table tenantry\.migrations[^]*create table "public"\."authors"[^]*force row level security/)
    t.match(overview.tables, ['tenantry.migrations', 'tenantry.documents', 'tenantry.tenants'])
    t.strictSame(overview.tables.slice(-2), ['authors', 'notes'])
    t.match(overview.instructions, /tenantry migrate/)

    t.match(
      (await app.inject({ method: 'POST', url: '/migration/apply', headers: admin, payload: { only: ['001_system_tables'] } })).json(),
      { code: 'TENANTRY_VALIDATION_FAILED', details: [{ path: '/body/only' }] },
      'unknown changes are not made'
    )
    const { success, applied } = await apply()
    t.equal(success, true)
    t.strictSame([applied[0], applied.at(-1)], ['001_system_tables', nameAfterSystem('create_authors_notes')])
    const auditEntries = () =>
      app.db.selectFrom('tenantry.audit_log').select(['action', 'target', 'tenant_id', 'user_id', 'address', 'outcome']).orderBy('id')
        .execute()
    const entries = applied.slice(applied.findIndex((name: string) => name.endsWith('_audit_log')))
    t.strictSame(
      await auditEntries(),
      entries.map((target: string) => ({
        action: 'migration.apply',
        target,
        tenant_id: '',
        user_id: 'user-1',
        address: '127.0.0.1',
        outcome: 'success'
      })),
      'migrations after the audit log are listed in it'
    )
    t.strictSame(await apply(), { success: true, applied: [] })
    t.equal((await auditEntries()).length, entries.length)
    t.match(await get('/migration/status'), {
      ready: true,
      tables: { 'tenantry.migrations': true, 'tenantry.tenants': true, authors: true, notes: true }
    })
    t.strictSame(await get('/migration'), { sql: '', tables: [], instructions: 'Nothing is missing.' })
  }, { empty: true }))

test('the quick fix creates the tables without row-level security, or disables it', async (t) => {
  const { connectionString, query } = await postgresDatabase(t, { empty: true, role: 'owner' })
  const app = await open(t, { provider: 'postgres', postgres: { connectionString } })
  const quickFix = async () => (await app.inject({ url: '/migration/quick-fix', headers: admin })).json()
  const { sql, warning } = await quickFix()
  t.match(warning, /development/)
  t.notMatch(sql, /create policy/)
  await query(sql)
  const secured =
    "select relname as name from pg_class where relrowsecurity and relnamespace in ('public'::regnamespace, 'tenantry'::regnamespace, 'tenantry_queue'::regnamespace) order by 1"
  t.strictSame(await query(secured), [])
  await app.inject({ method: 'POST', url: '/migration/apply', headers: admin })
  t.strictSame(await query(secured), [{ name: 'notes' }])
  await query((await quickFix()).sql)
  t.strictSame(await query(secured), [])
})

test('the quick fix is rejected in production', async (t) => {
  const { connectionString } = await postgresDatabase(t, { empty: true })
  const app = await open(t, { provider: 'postgres', postgres: { connectionString } }, { production: true })
  const refused = await app.inject({ url: '/migration/quick-fix', headers: admin })
  t.equal(refused.statusCode, 403)
  t.match(refused.json(), { error: 'Forbidden', code: 'TENANTRY_FORBIDDEN' })
})

test('only platform administrators reach the endpoints', async (t) => {
  const { connectionString, query } = await postgresDatabase(t, { empty: true })
  const app = await open(t, { provider: 'postgres', postgres: { connectionString } })
  for (
    const [method, url] of [['GET', '/migration'], ['GET', '/migration/status'], ['GET', '/migration/quick-fix'], [
      'POST',
      '/migration/apply'
    ]] as const
  ) {
    t.equal((await app.inject({ method, url })).statusCode, 401)
    t.equal((await app.inject({ method, url, headers: bearer({ role: 'user' }) })).statusCode, 403)
    t.equal((await app.inject({ method, url, headers: bearer({ role: 'admin', tenant_id: 'acme' }) })).statusCode, 403)
  }
  t.strictSame(await query("select to_regclass('tenantry.migrations') as found"), [{ found: null }])
})

test('a migration that the database rejects is a 409 with the reason', async (t) => {
  const { connectionString } = await postgresDatabase(t, { empty: true, sql: 'create table authors (id uuid)' })
  const app = await open(t, { provider: 'postgres', postgres: { connectionString } })
  t.match((await app.inject({ url: '/migration', headers: admin })).json().instructions, /Note: the primary key of authors is none/)
  const refused = await app.inject({ method: 'POST', url: '/migration/apply', headers: admin })
  t.equal(refused.statusCode, 409)
  t.match(refused.json(), { code: 'TENANTRY_CONFLICT', message: new RegExp(`${nameAfterSystem('create_notes')} cannot be applied`) })
})
