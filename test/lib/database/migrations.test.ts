import pg from 'pg'
import { test } from 'tap'
import type { DeclaredTables } from '../../../lib/database/declared-tables.js'
import { createEngine, type EngineOptions } from '../../../lib/database/index.js'
import { planSql, recordSql } from '../../../lib/database/migrations/plan.js'
import { systemMigrations } from '../../../lib/database/migrations/system/index.js'
import { tenantOwnedTables } from '../../../plugins/tenancy/erasure.js'
import { nameAfterSystem, systemNames } from '../../helpers/migrations.js'
import { forEachEngine, postgresDatabase, postgresSection } from '../../helpers/postgres.js'
import { authors, tables } from './authors-and-notes.js'
import { openEngine, rejection, run, withoutTenant } from './open.js'

const systemTables = [
  'tenantry.migrations',
  'tenantry.documents',
  'tenantry.tenants',
  'tenantry.deleted_tenants',
  'tenantry.tenant_configs',
  'tenantry.secrets',
  'tenantry.secret_earlier_values',
  'tenantry.audit_log',
  'tenantry.attempts',
  'tenantry.users',
  'tenantry.user_mfa',
  'tenantry.revocations',
  'tenantry.api_keys',
  'tenantry.tenant_rbac',
  'tenantry.tenant_roles',
  'tenantry.resource_usage',
  'tenantry.resource_limits',
  'tenantry.request_stats',
  'tenantry.request_stats_writers',
  'tenantry.usage_instances',
  'tenantry.usage_counters',
  'tenantry.usage_gauges',
  'tenantry.usage_reservations',
  'tenantry_queue.version',
  'tenantry_queue.queue',
  'tenantry_queue.job',
  'tenantry.billing_tenants',
  'tenantry.billing_subscriptions',
  'tenantry.billing_events',
  'tenantry.billing_unclaimed',
  'tenantry.workflow_runs',
  'tenantry.workflow_steps',
  'tenantry.workflow_schedules',
  'tenantry.oauth_tokens',
  'tenantry.webhook_events',
  'tenantry.webhook_deliveries',
  'tenantry.webhook_secrets',
  'tenantry.webhook_receipts',
  'tenantry.idempotency_keys',
  'tenantry.usage_notices',
  'tenantry.usage_requests',
  'tenantry.refresh_tokens',
  'tenantry.user_links',
  'tenantry.files',
  'tenantry.file_transforms',
  'tenantry.file_parts',
  'tenantry.agent_documents',
  'tenantry.agent_chunks',
  'tenantry.agent_stale_vectors',
  'tenantry.agent_batches',
  'tenantry.agent_batch_documents',
  'tenantry.conversations',
  'tenantry.conversation_messages',
  'tenantry.realtime_changes',
  'tenantry.realtime_heads',
  'tenantry.realtime_members',
  'tenantry.realtime_messages',
  'tenantry.realtime_instances',
  'tenantry.realtime_outbox',
  'tenantry.realtime_recorded'
]

test("an empty database gets the server's tables and the declared ones; a second run changes nothing", (t) =>
  forEachEngine(t, async (t, database) => {
    const engine = await openEngine(t, { ...database, tables, migrate: 'manual' })
    // A new embedded database already has the server's tables.
    await run(engine, 'drop schema if exists tenantry cascade', 'drop schema if exists tenantry_queue cascade')
    const plan = await engine.migration.plan()
    t.strictSame(plan.migrations.map(({ name }) => name), [...systemNames, nameAfterSystem('create_authors_notes')])
    t.strictSame(await engine.pendingMigrations(), [...systemNames, nameAfterSystem('create_authors_notes')])
    t.strictSame(plan.tables, Object.fromEntries([...systemTables, 'authors', 'notes'].map((name) => [name, false])))

    t.strictSame(await engine.migration.apply(), [...systemNames, nameAfterSystem('create_authors_notes')])
    t.strictSame(await engine.migration.apply(), [])
    t.strictSame(await engine.pendingMigrations(), [])
    t.strictSame(await engine.migration.plan(), {
      migrations: [],
      warnings: [],
      tables: Object.fromEntries([...systemTables, 'authors', 'notes'].map((name) => [name, true]))
    })
    t.strictSame(await engine.kysely.selectFrom('tenantry.migrations').select(['name', 'kind']).orderBy('name').execute(), [
      ...systemNames.map((name) => ({ name, kind: 'system' })),
      { name: nameAfterSystem('create_authors_notes'), kind: 'tables' }
    ])

    const found = engine.catalogue.tables.get('notes')
    t.match(found, { primaryKey: ['tenant_id', 'id'], uniqueKeys: [['tenant_id', 'title', 'day']], tenantScoped: true, softDelete: true })
    t.equal(found?.columns.get('grid')?.dimensions, 2, 'as its default')
    t.equal(found?.columns.get('tags')?.dimensions, undefined)
    const [row] = await engine.transaction(withoutTenant, (session) =>
      session.rows({
        text:
          "insert into notes (id, tenant_id) values (1, 'a') returning title, pages, price, open, tags, grid, none, meta, day = current_date as today, made > now() - interval '1 minute' as now, length(key) as key, deleted, deleted_at"
      }))
    t.strictSame(row, {
      title: "it's \\ untitled",
      pages: 0,
      price: '1.5',
      open: false,
      tags: ['a,b', '"', null],
      grid: [[1, 2], [3, 4]],
      none: [],
      meta: { a: ["'"] },
      today: true,
      now: true,
      key: 36,
      deleted: false,
      deleted_at: null
    })
  }, { empty: true }))

test('later declarations add what is missing, keep everything else, and warn of it', async (t) => {
  const { connectionString, query } = await postgresDatabase(t, { empty: true })
  const said: string[] = []
  const log: EngineOptions['log'] = { info () {}, warn: (_object, message) => said.push(message) }
  const open = async (declared: DeclaredTables) =>
    openEngine(t, { provider: 'postgres', postgres: { connectionString }, tables: declared, migrate: 'auto', log })
  await open({ authors })
  await query("insert into authors (email, tenant_id) values ('x@y', 'a')")
  const engine = await open({
    authors: {
      columns: {
        ...authors.columns,
        email: { type: 'integer' },
        name: { type: 'text', notNull: true, default: 'unnamed' },
        born: { type: 'date', notNull: true }
      },
      softDelete: true,
      indexes: [['name'], ['name']],
      unique: [['name', 'born']],
      tenantScoped: true
    },
    notes: { columns: { id: { type: 'uuid', primaryKey: true }, author_id: { type: 'uuid', references: 'authors.id' } } }
  })
  t.strictSame(await query('select email, name, born, deleted from authors'), [{
    email: 'x@y',
    name: 'unnamed',
    born: null,
    deleted: false
  }])
  t.match(engine.catalogue.tables.get('notes'), {
    foreignKeys: [{ columns: ['author_id'], referencedColumns: ['id'] }],
    tenantScoped: false
  })
  t.match(
    engine.catalogue.tables.get('authors')?.uniqueKeys.filter((key) => key.length === 1),
    [['id']],
    'a column that a table without tenants references is unique across all tenants'
  )
  t.strictSame((await query('select name from tenantry.migrations order by 1')).map(({ name }) => name), [
    ...systemNames,
    nameAfterSystem('create_authors'),
    nameAfterSystem('create_notes', 2)
  ])
  const plan = await engine.migration.plan()
  t.strictSame(plan.migrations, [])
  t.match(plan.warnings, [/authors\.email is text in the database, but declared as integer/, /authors\.born is declared notNull/])
  t.strictSame(said, plan.warnings)
  await open({})
  t.strictSame(await query('select count(*)::int as n from authors'), [{ n: 1 }], 'undeclared tables and columns stay')
})

test('a database of a version without tenants gets the missing migrations after its existing ones', async (t) => {
  const database = await postgresSection(t, { empty: true })
  const old = await openEngine(t, { ...database, tables: { authors }, migrate: 'manual' })
  const { migrations } = await old.migration.plan()
  const [first, last] = [migrations[0]!, migrations.at(-1)!]
  const statementsOf = ({ steps }: typeof first) => steps.flatMap(({ statements }) => statements)
  await run(old, ...statementsOf(first), ...statementsOf(last).slice(0, -1), recordSql({ ...last, name: '002_create_authors' }))
  await run(
    old,
    "insert into authors (email, tenant_id) values ('x@y', 'a')",
    "insert into tenantry.documents (tenant_id, collection, id, data) values ('a', 'c', '1', '{}')"
  )
  const added = systemNames.slice(1).map((name, index) => `${String(index + 3).padStart(3, '0')}_${name.slice(4)}`)
  t.strictSame(await old.pendingMigrations(), added)
  t.strictSame(await old.migration.apply(), added)
  const upgraded = await openEngine(t, { ...database, tables, migrate: 'auto' })
  t.strictSame(
    (await upgraded.kysely.selectFrom('tenantry.migrations').select('name').orderBy('name').execute()).map(({ name }) => name),
    ['001_system_tables', '002_create_authors', ...added, nameAfterSystem('create_notes', 2)]
  )
  t.strictSame(await upgraded.pendingMigrations(), [])
  t.equal(await upgraded.text({ text: 'select (select count(*) from authors) || (select id from tenantry.documents)' }, [], withoutTenant), '11')
})

test('deleting a tenant empties every system table with a tenant_id', async (t) => {
  const engine = await openEngine(t, { provider: 'embedded' })
  const found = await engine.transaction(withoutTenant, (session) =>
    session.rows<{ name: string }>({
      text:
        "select table_schema || '.' || table_name as name from information_schema.columns where table_schema in ('tenantry', 'tenantry_queue') and column_name = 'tenant_id'"
    }))
  t.strictSame(found.map(({ name }) => name).sort(), [...tenantOwnedTables].sort())
})

test('the printed script has the same effect as apply', async (t) => {
  const [byHand, applied] = await Promise.all([
    postgresDatabase(t, { empty: true, role: 'owner' }),
    postgresDatabase(t, { empty: true, role: 'owner' })
  ])
  const open = ({ connectionString }: { connectionString: string }) =>
    openEngine(t, { provider: 'postgres', postgres: { connectionString }, tables })
  const engine = await open(byHand)
  const script = planSql(await engine.migration.plan())
  await byHand.query(script)
  t.strictSame(await engine.pendingMigrations(), [])
  t.match(await rejection(byHand.query(script)), { code: '42P07' }, 'the second run stops at once')
  await (await open(applied)).migration.apply()
  const shape =
    "select table_name, column_name, data_type, is_nullable, column_default from information_schema.columns where table_schema in ('public', 'tenantry') order by 1, 2"
  t.strictSame(await byHand.query(shape), await applied.query(shape))
  t.strictSame(
    await byHand.query('select name, kind from tenantry.migrations order by 1'),
    await applied.query('select name, kind from tenantry.migrations order by 1')
  )
})

test('twenty servers that start together migrate an empty database once', async (t) => {
  const { connectionString, query } = await postgresDatabase(t, { empty: true })
  const engines = await Promise.all(
    Array.from(
      { length: 20 },
      () => openEngine(t, { provider: 'postgres', postgres: { connectionString, pool: { max: 2 } }, tables, migrate: 'auto' })
    )
  )
  t.strictSame((await query('select name from tenantry.migrations order by 1')).map(({ name }) => name), [
    ...systemNames,
    nameAfterSystem('create_authors_notes')
  ])
  for (const engine of engines) t.equal(engine.catalogue.tables.get('notes')?.columns.has('deleted_at'), true)
})

test('a database that is newer than the program is rejected and not changed', async (t) => {
  const database = await postgresSection(t, { empty: true })
  const engine = await openEngine(t, { ...database, migrate: 'auto' })
  await engine.transaction(withoutTenant, (session) =>
    session.rows({ text: `insert into tenantry.migrations (name) values ('${nameAfterSystem('from_the_future')}')` }))
  for (const migrate of ['auto', 'manual'] as const) {
    t.match(await rejection(createEngine({ ...database, tables, migrate })), { message: /newer than this version.*_from_the_future/ })
  }
  t.strictSame([...(await engine.refresh()).tables.keys()], [])
})

test('system migrations have snake_case names', async (t) => {
  for (const { description } of systemMigrations) t.match(description, /^[a-z0-9]+(_[a-z0-9]+)*$/)
})

test('migrations applied under an older name do not run again', async (t) => {
  const database = await postgresSection(t, { empty: true })
  const engine = await openEngine(t, { ...database, migrate: 'auto' })
  const names = () =>
    engine.transaction(withoutTenant, (session) => session.rows({ text: 'select name from tenantry.migrations order by name' }))
  for (const [name, older] of [['oauth_tokens', 'oauth tokens'], ['usage_requests', 'usage-requests']]) {
    await engine.transaction(
      withoutTenant,
      (session) => session.rows({ text: `update tenantry.migrations set name = replace(name, '${name}', '${older}')` })
    )
  }
  const before = await names()
  t.ok(JSON.stringify(before).includes('oauth tokens'))
  await openEngine(t, { ...database, migrate: 'auto' })
  t.strictSame(await names(), before)
})

test('a migration that the data prevent reports why, leaves no invalid index, and continues when the data allow it', async (t) => {
  const { connectionString, query } = await postgresDatabase(t, {
    empty: true,
    sql: "create table notes (id int primary key, title text); insert into notes values (1, 'x'), (2, 'x')"
  })
  const engine = await openEngine(t, {
    provider: 'postgres',
    postgres: { connectionString },
    tables: {
      notes: { columns: { id: { type: 'integer', primaryKey: true }, title: { type: 'text', unique: true }, more: { type: 'text' } } }
    }
  })
  t.match(await rejection(engine.migration.apply()), {
    code: 'TENANTRY_CONFLICT',
    statusCode: 409,
    message: new RegExp(
      `${nameAfterSystem('alter_notes')} cannot be applied to public.notes: could not create unique index "notes_title_\\w+_key"`
    )
  })
  t.strictSame(await query('select * from notes limit 1'), [{ id: 1, title: 'x', more: null }], 'the steps before it stay')
  t.strictSame(await query("select 1 as found from pg_index where indrelid = 'notes'::regclass and not indisvalid"), [])
  t.strictSame(await engine.pendingMigrations(), [nameAfterSystem('alter_notes')])
  await query("update notes set title = 'y' where id = 2")
  t.strictSame(await engine.migration.apply(), [nameAfterSystem('alter_notes')])
  t.strictSame(await query("select contype from pg_constraint where conrelid = 'notes'::regclass and contype in ('p', 'u') order by 1"), [{
    contype: 'p'
  }, { contype: 'u' }])
})

test('a database that is not migrated can be opened, and reports missing migrations', async (t) => {
  const { connectionString } = await postgresDatabase(t, { empty: true })
  const said: object[] = []
  const engine = await openEngine(t, {
    provider: 'postgres',
    postgres: { connectionString },
    tables,
    migrate: 'manual',
    log: { info () {}, warn: (object) => said.push(object) }
  })
  t.strictSame(said, [{ migrations: [...systemNames, nameAfterSystem('create_authors_notes')] }])
  t.equal(engine.catalogue.tables.has('notes'), true)
})

test('an index may take longer to build than the transactions of its role', async (t) => {
  const { connectionString, name, query } = await postgresDatabase(t, { empty: true, sql: 'create table notes (id int primary key, title text)' })
  const holder = new pg.Client({ connectionString })
  await holder.connect()
  await holder.query("begin; insert into notes values (1, 'x')")
  const engine = await openEngine(t, {
    provider: 'postgres',
    postgres: { connectionString },
    tables: { notes: { columns: { id: { type: 'integer', primaryKey: true }, title: { type: 'text' } }, indexes: [['title']] } }
  })
  // For the sessions of the migration. The engine has opened its own, whose transactions may take longer on a busy machine.
  await query(`alter database ${name} set transaction_timeout = '1s'`)
  const [applied] = await Promise.all([engine.migration.apply(), holder.query('select pg_sleep(1.2); commit')])
  t.equal(applied.at(-1), nameAfterSystem('alter_notes'))
  await holder.end()
})

test('a long lock on a table does not block the migration forever', async (t) => {
  const { connectionString } = await postgresDatabase(t, { empty: true, sql: 'create table notes (id int primary key)' })
  const engine = await openEngine(t, {
    provider: 'postgres',
    postgres: { connectionString, pool: { statementTimeoutMs: 1000 } },
    tables: { notes: { columns: { id: { type: 'integer', primaryKey: true }, more: { type: 'text' } } } }
  })
  const holder = new pg.Client({ connectionString })
  await holder.connect()
  await holder.query('begin; lock table notes')
  const applying = rejection(engine.migration.apply())
  t.match(await applying, {
    code: 'TENANTRY_DATABASE_BUSY',
    message: new RegExp(
      `${nameAfterSystem('alter_notes')} did not get a lock of the table public.notes within 2 s \\(held by process \\d+, idle in transaction\\)`
    )
  })
  await holder.end()
  t.strictSame(await engine.migration.apply(), [nameAfterSystem('alter_notes')])
})

test('a change that the database undoes ends with an error instead of a further migration', async (t) => {
  const { connectionString, query } = await postgresDatabase(t, {
    sql: `create table notes (id integer primary key);
      create sequence undone;
      create function undo() returns event_trigger language plpgsql as $$ begin
        if exists (select from pg_attribute where attrelid = 'notes'::regclass and attname = 'title' and not attisdropped) then
          if nextval('undone') > 3 then raise exception 'the migration does not end'; end if;
          alter table notes drop column title;
        end if;
      end $$;
      create event trigger undo on ddl_command_end when tag in ('ALTER TABLE') execute function undo()`
  })
  const tables = { notes: { columns: { id: { type: 'integer', primaryKey: true }, title: { type: 'text' } } } } as const
  t.match(await rejection(createEngine({ provider: 'postgres', postgres: { connectionString }, tables, migrate: 'auto' })), {
    message: /^the migration \d+_\w+ was applied, but the database still lacks it$/
  })
  t.strictSame(await query('select last_value::int as times from undone'), [{ times: 1 }])
})
