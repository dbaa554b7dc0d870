import type { FastifyInstance } from 'fastify'
import { CompiledQuery, type RootOperationNode, sql } from 'kysely'
import { type Test, test } from 'tap'
import { type AuditEntry, noActor, writeAudit } from '../../../lib/database/audit.js'
import { lifeOf, platformRef, tenantIdOf, tenantRef } from '../../../lib/identity/tenant-ref.js'
import { builtInPlans } from '../../../lib/plans/plans.js'
import type { AuditOptions } from '../../../plugins/audit/index.js'
import { readAudit, sweepAudit } from '../../../plugins/audit/store.js'
import { testApp } from '../../helpers/app.js'
import { type DatabaseSection, forEachEngine, postgresSection } from '../../helpers/postgres.js'
import { rowsRead } from '../../helpers/rows-read.js'

const day = 86_400_000 // ms
const start = Date.parse('2026-06-01T12:00:00Z')
const everything = { limit: 100, offset: 0 }

/** The plugin in its own app, with only its dependencies. */
async function open (t: Test, engine: DatabaseSection, options: AuditOptions = {}): Promise<FastifyInstance> {
  const { app } = await testApp(t, { engine, plugins: { audit: { routes: false, ...options } } })
  await sql`insert into tenantry.tenants (id, name, plan, status) values
    ('acme', 'acme', 'pro', 'active'), ('globex', 'globex', 'free', 'active'), ('initech', 'initech', 'enterprise', 'suspended'), ('gone', 'gone', 'free', 'deleting')`
    .execute(app.db)
  return app
}

test('the plugin needs only the database, and bounds its option', async (t) => {
  const engine = await postgresSection(t)
  for (const retentionDays of [0, -1, 1.5, NaN, 36_501]) {
    await t.rejects(testApp(t, { engine, plugins: { audit: { routes: false, retentionDays } } }), /retentionDays/, String(retentionDays))
  }
  const app = await open(t, engine)
  await app.audit.record({ tenant: 'acme', action: 'user.create', actor: noActor })
  t.match(await app.audit.page({}, everything), { data: [{ action: 'user.create' }], total: 1 })
})

test('entries of existing tenants are stored in order, with their values made storable', (t) =>
  forEachEngine(t, async (t, engine) => {
    let time = start
    const app = await open(t, engine, { now: () => time })
    const entry = (more: Partial<AuditEntry>): AuditEntry => ({
      tenant: tenantRef('acme'),
      action: 'auth.login',
      actor: noActor,
      at: new Date(time),
      ...more
    })
    await writeAudit(
      app.db,
      entry({ target: '1' }),
      entry({ target: '2', tenant: platformRef }),
      entry({ target: 'x', tenant: tenantRef('gone') }),
      entry({ target: 'x', tenant: tenantRef('nobody') }),
      entry({ target: '3', outcome: 'failure' })
    )
    const page = await app.audit.page({}, everything)
    t.strictSame(page.data.map(({ tenant, target, outcome }) => [tenant, target, outcome]), [
      ['acme', '3', 'failure'],
      ['', '2', 'success'],
      ['acme', '1', 'success']
    ])
    t.equal(page.total, 3)

    const long = '\u{1F600}'.repeat(1000)
    const actor = { userId: `a\0b\uD800c${long}`, address: `\uDC00${long}`, apiKey: 'key-1' }
    time += 1
    await app.audit.record({
      tenant: 'acme',
      action: 'auth.login',
      actor,
      target: `${'t'.repeat(255)}${long}`,
      details: { text: `\0\uDFFF"'\\${long}`, list: ['\0', 1, null], apiKey2: undefined }
    })
    const [latest] = (await app.audit.page({ tenant: tenantRef('acme') }, { limit: 1, offset: 0 })).data
    t.match(latest, { timestamp: new Date(time).toISOString(), target: `${'t'.repeat(255)}…`, details: { apiKey: 'key-1', list: ['\uFFFD', 1, null] } })
    t.match(latest?.userId, /^a\uFFFDb\uFFFDc\u{1F600}{125}…$/u)
    t.match(latest?.address, /^\uFFFD\u{1F600}{127}…$/u)
    t.match(String(latest?.details?.['text']), /^\uFFFD\uFFFD"'\\\u{1F600}{125}…$/u)
    t.equal((await app.audit.page({ tenant: tenantRef('acme'), userId: actor.userId }, everything)).total, 1, 'a filter matches truncated values')
    // @ts-expect-error not an audited action
    await t.rejects(app.audit.record({ tenant: 'acme', action: 'secret.read', actor: noActor }), /"secret.read" is not an audited action/)

    await app.db.transaction().execute(async (transaction) => {
      await writeAudit(transaction, entry({ target: 'undone' }))
      throw new Error('undone')
    }).catch(() => {})
    t.equal((await app.audit.page({ target: 'undone' }, everything)).total, 0)
  }))

test("a tenant's entries are shown and kept as long as its plan says, the platform's for their own period", (t) =>
  forEachEngine(t, async (t, engine) => {
    let time = start
    const app = await open(t, engine, { now: () => time, retentionDays: 30 })
    for (const tenant of ['', 'acme', 'globex', 'initech']) await app.audit.record({ tenant, action: 'user.create', actor: noActor })
    const visible = async () => {
      const totals = await Promise.all(['', 'acme', 'globex', 'initech'].map((tenant) => app.audit.page({ tenant: tenantRef(tenant) }, everything)))
      return totals.map(({ data, total }) => data.length === total ? total : NaN)
    }
    const rows = async () => {
      t.equal(await sweepAudit(app.db, { plans: builtInPlans, retentionDays: 30 }, new Date(time)), true)
      return (await app.audit.page({}, everything)).data.map(({ tenant }) => tenant).reverse()
    }
    for (
      const [days, tenants] of [[7, ['', 'acme', 'initech']], [30, ['acme', 'initech']], [90, ['initech']], [36_500, ['initech']]] as const
    ) {
      const before = await rows()
      time = start + days * day - 1
      t.strictSame([await visible(), await rows()], [
        ['', 'acme', 'globex', 'initech'].map((tenant) => before.includes(tenantRef(tenant)) ? 1 : 0),
        before
      ], `just before ${days} days`)
      time += 1
      t.strictSame(
        await visible(),
        ['', 'acme', 'globex', 'initech'].map((tenant) =>
          tenants.some((kept) => kept === tenant)
            ? 1
            : 0
        ),
        'hidden before they are removed'
      )
      t.strictSame(await rows(), tenants)
    }
  }))

test('the sweep reads no entries that are kept', async (t) => {
  const app = await open(t, await postgresSection(t, { role: 'owner' }))
  await sql`insert into tenantry.audit_log (tenant_id, action, created_at)
    select tenant, 'auth.login', ${new Date(start)}::timestamptz - make_interval(secs => n)
    from generate_series(1, 15000) n, (values ('acme'), ('globex')) t (tenant)`.execute(app.db)
  await sql`vacuum analyze tenantry.audit_log`.execute(app.db)
  const rows = await rowsRead(app.db, (db) => sweepAudit(db, { plans: builtInPlans, retentionDays: 30 }, new Date(start)))
  t.ok(rows < 100, `${rows} rows`)
})

test('the cost of a page is bounded, however long the log is', async (t) => {
  const app = await open(t, await postgresSection(t), { now: () => start })
  await sql`insert into tenantry.audit_log (tenant_id, action, user_id, created_at)
    select tenant, case when n % 5000 = 0 then 'auth.register' else 'auth.login' end, 'user-' || n % 3, ${new Date(
    start - day
  )}::timestamptz + make_interval(secs => n)
    from generate_series(1, 15000) n, (values ('acme'), ('globex')) t (tenant)`.execute(app.db)
  t.match(await app.audit.page({ tenant: tenantRef('acme') }, { limit: 2, offset: 10_000 }), { data: { length: 2 }, total: 10_000 })
  t.match(await app.audit.page({ tenant: tenantRef('acme'), actions: ['auth.register', 'auth.logout'] }, { limit: 2, offset: 0 }), {
    data: [
      { action: 'auth.register', timestamp: new Date(start - day + 15_000_000).toISOString() },
      { timestamp: new Date(start - day + 10_000_000).toISOString() }
    ],
    total: 3
  })
  t.match(await app.audit.page({ tenant: tenantRef('acme'), userId: 'user-0', actions: ['auth.register'] }, everything), { total: 1 })
  t.match(await app.audit.page({ actions: ['auth.register', 'auth.login'], from: new Date(start - day + 14_999_000) }, everything), {
    data: { length: 4 },
    total: 4
  })

  // If an action and a user or a target each have many entries but none in common, no entry is read.
  await sql`insert into tenantry.audit_log (tenant_id, action, user_id, target, created_at)
    select 'acme', case n % 2 when 0 then 'secret.access' else 'secret.create' end, 'user-' || 4 + n % 2, 'target-' || n % 2, ${new Date(
    start - day
  )}::timestamptz + make_interval(secs => n) from generate_series(1, 15000) n`.execute(app.db)
  await sql`vacuum analyze tenantry.audit_log`.execute(app.db)
  for (const disjoint of [{ userId: 'user-5' }, { target: 'target-1' }]) {
    const statements: RootOperationNode[] = []
    const db = app.db.withPlugin({
      transformQuery: ({ node }) => {
        statements.push(node)
        return node
      },
      transformResult: async ({ result }) => result
    })
    t.match(await readAudit(db, { tenant: tenantRef('acme'), actions: ['secret.access', 'secret.delete'], ...disjoint }, everything), { total: 0 })
    for (const node of statements) {
      const { sql: text, parameters } = app.db.getExecutor().compileQuery(node, { queryId: '' })
      const { rows: [row] } = await app.db.executeQuery<{ 'QUERY PLAN': unknown }>(
        CompiledQuery.raw(`explain (analyze, format json) ${text}`, [...parameters])
      )
      t.notMatch(JSON.stringify(row?.['QUERY PLAN']), /Rows Removed by Filter":[1-9]|Seq Scan/, text)
    }
    t.equal(statements.length, 2)
  }
})

test('an entry of an earlier tenant is not stored for a later one with its id', (t) =>
  forEachEngine(t, async (t, engine) => {
    const app = await open(t, engine)
    const id = tenantIdOf('acme')
    const { created_at: createdAt } = await app.db.selectFrom('tenantry.tenants').select('created_at').where('id', '=', id)
      .executeTakeFirstOrThrow()
    const lifeAt = (ms: number) => lifeOf({ id, createdAt: new Date(createdAt.getTime() + ms) })
    const entry = { tenant: id, action: 'auth.login', actor: noActor, at: new Date(start) } as const
    const lives = { earlier: lifeAt(-1), present: lifeAt(0), later: lifeAt(1) }
    for (const [target, life] of Object.entries(lives)) await writeAudit(app.db, { ...entry, target, life })
    await writeAudit(app.db, { ...entry, target: 'any' })
    t.strictSame((await app.audit.page({}, everything)).data.map(({ target }) => target), ['any', 'present'])
  }))
