import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { test } from 'tap'
import type { DeclaredTables } from '../../../lib/database/declared-tables.js'
import type { MigrationProgress } from '../../../lib/database/migrations/migration.js'
import { planSql } from '../../../lib/database/migrations/plan.js'
import { systemSteps } from '../../../lib/database/migrations/steps.js'
import { systemMigrations } from '../../../lib/database/migrations/system/index.js'
import { isFailure } from '../../../lib/errors.js'
import { platformRef } from '../../../lib/identity/tenant-ref.js'
import { launch } from '../../bin/tenantry.js'
import { nameAfterSystem } from '../../helpers/migrations.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { longestBlock, openEngine, rejection } from './open.js'

const lookMs = 20 // between polls of the sessions
const rows = 200_000
const sql = `
create table authors (id int primary key);
insert into authors select generate_series(1, 100);
create table notes (id int primary key, tenant_id text not null, title text, author_id int);
insert into notes select n, 'a', 'title ' || n, n % 100 + 1 from generate_series(1, ${rows}) n`
const tables: DeclaredTables = {
  authors: { columns: { id: { type: 'integer', primaryKey: true } } },
  notes: {
    columns: {
      id: { type: 'integer', primaryKey: true },
      title: { type: 'text', unique: true },
      author_id: { type: 'integer', references: 'authors.id' },
      open: { type: 'boolean', notNull: true, default: true },
      key: { type: 'uuid', notNull: true, default: 'uuid()' },
      tag: { type: 'text', default: 'uuid()' }
    },
    tenantScoped: true,
    softDelete: true,
    indexes: [['author_id']]
  }
}

test('migrations of a large table block neither reads nor writes for long, during an open transaction', async (t) => {
  const { connectionString, query } = await postgresDatabase(t, { sql })
  const connected = async () => {
    const client = new pg.Client({ connectionString })
    await client.connect()
    t.teardown(() => client.end())
    return client
  }
  const [reading, writer, reader] = await Promise.all([connected(), connected(), connected()])
  const engine = await openEngine(t, { provider: 'postgres', postgres: { connectionString }, tables })
  const longest = await longestBlock(reader)
  for (const client of [writer, reader]) await client.query(`set lock_timeout = ${longest}; set app.tenant_id = '*'`)
  const done = new AbortController()
  const repeat = async (work: (count: number) => Promise<unknown>) => {
    let count = 0
    while (!done.signal.aborted) await work(++count)
    return count
  }
  const writes = repeat((count) =>
    writer.query('insert into notes (id, tenant_id, title, author_id) values ($1, $2, $3, 1)', [rows + count, 'b', `new ${count}`])
      .then(() => writer.query('update notes set author_id = 2 where id = $1', [count]))
  )
  const reads = repeat((count) => reader.query('select title from notes where id = $1', [count]))

  const openTransaction = () => reading.query('begin isolation level repeatable read; select count(*) from notes where id < 10')
  const waited = new Map<string, number>()
  const seen: string[] = []
  let freed = Promise.resolve()
  const onProgress = ({ migration, step, of, table, state }: MigrationProgress) => {
    if (state === 'started') seen.push(`${migration} ${step}/${of} ${table}`)
    if (state !== 'waiting') return
    waited.set(`${migration} ${step}`, (waited.get(`${migration} ${step}`) ?? 0) + 1)
    if (waited.size === 1 && waited.get(`${migration} ${step}`) === 3) {
      freed = reading.query('rollback').then(async () => {
        await waitsForSnapshot()
      })
    }
  }
  /** Opens another transaction, and ends it when the index build waits for it. */
  const waitsForSnapshot = async () => {
    await openTransaction()
    const waiting =
      "select 1 from pg_stat_activity where datname = current_database() and query like 'create%index concurrently%' and wait_event = 'virtualxid'"
    const locks =
      "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like 'alter table%'"
    while (!done.signal.aborted && (await query(waiting)).length === 0) {
      if ((await query(locks)).length === 0) continue
      await reading.query('rollback')
      await openTransaction()
    }
    await reading.query('rollback')
  }

  await openTransaction()
  const applying = engine.migration.apply(undefined, onProgress).finally(() => done.abort())
  const [applied, written, read] = await Promise.all([applying, writes, reads])
  await freed
  t.strictSame(applied, [nameAfterSystem('alter_notes'), nameAfterSystem('isolate_notes', 2)])
  t.ok([...waited.values()][0]! >= 3, 'a step was retried while the transaction was open')
  t.ok(written > 0 && read > 0)
  t.strictSame(await engine.pendingMigrations(), [])
  const [found] = await engine.transaction({ tenant: platformRef }, (session) =>
    session.rows({
      text:
        'select count(*)::int as all, count(distinct key)::int as keys, count(distinct tag)::int as tags, count(*) filter (where open and not deleted)::int as open from notes'
    }))
  t.strictSame(found, { all: rows + written, keys: rows + written, tags: rows + written, open: rows + written })
  t.strictSame(await query("select convalidated as valid from pg_constraint where conrelid = 'notes'::regclass and contype = 'f'"), [{
    valid: true
  }])
  t.strictSame(
    await query(
      "select attnotnull as required from pg_attribute where attrelid = 'notes'::regclass and attname in ('key', 'tag') order by attname"
    ),
    [{ required: true }, { required: false }]
  )
  t.equal(
    (await query("select 1 from pg_index where indrelid = 'notes'::regclass and indisvalid")).length,
    4,
    'the keys, and the indexes of both lists'
  )
  t.ok(seen.length > 0)
  t.ok(seen.every((line) => line.includes('public.notes') || line.endsWith(' undefined')))
})

test('a migration that was interrupted at any step continues where it stopped', async (t) => {
  const { connectionString, query } = await postgresDatabase(t, { sql })
  const open = () => openEngine(t, { provider: 'postgres', postgres: { connectionString }, tables })
  const engine = await open()
  const { migrations } = await engine.migration.plan()
  const steps = migrations.reduce((sum, migration) => sum + migration.steps.length, 0)
  const isMigrating =
    "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and query ~ '^(alter|create|do|commit|drop|insert|comment)'"
  let cut = 0
  for (let place = 0; place < steps; place++) {
    const cutting: Promise<unknown>[] = []
    const broken = await rejection(
      engine.migration.apply(undefined, ({ state }) => {
        // After each step: a termination has no effect between two statements that it does not look for.
        if (state === 'done') cutting.push(query(isMigrating))
      }).then(() => {
        throw new Error('finished')
      })
    )
    await Promise.all(cutting)
    if (broken instanceof Error && broken.message === 'finished') break
    cut++
  }
  // The last termination may reach a connection after its migration has finished.
  await engine.migration.apply().catch(() => engine.migration.apply())
  t.ok(cut > 3, `${cut} of ${steps} steps were the last of a run`)
  t.strictSame((await engine.migration.plan()).migrations, [])
  t.equal((await query('select 1 from pg_index where not indisvalid')).length, 0)
  t.strictSame(
    await query("select count(*)::int as n from pg_constraint where conrelid = 'notes'::regclass and contype in ('u', 'f', 'c')"),
    [{ n: 2 }],
    'no check constraint remains'
  )
  t.strictSame(await query('select count(*)::int as n from notes where key is null or tag is null'), [{ n: 0 }])
})

test('a migration waits for the one of another server and names its process; after a kill -9 it builds the index anew', async (t) => {
  const { connectionString, query } = await postgresDatabase(t, { sql: 'create table notes (id int primary key, title text)' })
  const folder = t.testdir({
    'tenantry.json': JSON.stringify({
      postgres: { connectionString },
      tables: { notes: { columns: { id: { type: 'integer', primaryKey: true }, title: { type: 'text' } }, indexes: [['title']] } },
      routes: []
    })
  })
  const reader = new pg.Client({ connectionString })
  await reader.connect()
  t.teardown(() => reader.end())
  // The build of the index waits for the end of this transaction.
  await reader.query('begin isolation level repeatable read; select 1')
  const building = async () =>
    (await query(
      "select pid from pg_stat_activity where datname = current_database() and query like 'create index concurrently%' and wait_event = 'virtualxid'"
    )).map(({ pid }) => pid)
  const first = launch(t, folder, ['migrate'])
  while ((await building()).length === 0) await pause(lookMs)
  const [holder] = await query(
    "select pid from pg_stat_activity where datname = current_database() and state = 'idle in transaction' and query like '%advisory%'"
  )
  const second = launch(t, folder, ['migrate'])
  t.match(await second.errorLine(/another server/), `(process ${String(holder?.['pid'])} of PostgreSQL), waiting for it`)
  const [build] = await building()
  first.kill('SIGKILL')
  const alive = async () => (await query('select 1 from pg_stat_activity where pid = $1', [build])).length > 0
  while (await alive() || (await building()).length === 0) await pause(lookMs)
  await reader.query('rollback')
  const { code, errors } = await second.ended
  t.equal(code, 0, errors.join('\n'))
  t.strictSame(await query("select indisvalid as valid from pg_index where indrelid = 'notes'::regclass"), [{ valid: true }, { valid: true }])
})

test('every system migration can be applied to a database in use', async (t) => {
  for (const { description, statements } of systemMigrations) {
    const steps = systemSteps(statements({ policies: true }), new Set())
    t.ok(steps.length > 0, description)
    // A step that changes existing tables locks one of them.
    for (const { kind, table } of steps) t.equal(table === undefined, kind === 'make', description)
  }
})

test('a system migration on a table in use builds its index concurrently, and continues after its finished statements', async (t) => {
  const { connectionString, query } = await postgresDatabase(t)
  await query(`delete from tenantry.migrations where name like '%_queue_lists';
    create index job_tenant on tenantry_queue.job (tenant_id);
    create function tenantry_queue.notify_workers() returns trigger language plpgsql as 'begin return null; end';
    create trigger job_notify_workers after insert on tenantry_queue.job for each statement execute function tenantry_queue.notify_workers()`)
  const engine = await openEngine(t, { provider: 'postgres', postgres: { connectionString } })
  const { migrations } = await engine.migration.plan()
  const name = nameAfterSystem('queue_lists')
  t.strictSame(migrations.map((migration) => migration.name), [name])
  t.match(
    planSql({ migrations }),
    /begin;[^]*drop trigger[^]*commit;\n-- the next statements cannot run in a transaction\ndrop index concurrently if exists tenantry_queue\.job_of_tenant;\ncreate index concurrently job_of_tenant on tenantry_queue\.job/
  )

  const blocker = new pg.Client({ connectionString })
  await blocker.connect()
  t.teardown(() => blocker.end())
  await query('create table tenantry_queue.job_of_tenant (id int)')
  t.match(await rejection(engine.migration.apply()), { message: /queue_lists.*tenantry_queue\.job/ })
  t.match(
    await query("select name from tenantry.migrations where name like '%queue_lists%'"),
    [{ name: /_queue_lists\.3$/ }],
    'the statements before the index are done'
  )
  await query('drop table tenantry_queue.job_of_tenant')
  t.strictSame(await engine.migration.apply(), [name])
  t.strictSame(await query("select name from tenantry.migrations where name like '%queue_lists%'"), [{ name }])
  t.strictSame(
    await query(
      "select indexrelid::regclass::text as name from pg_index where indrelid = 'tenantry_queue.job'::regclass and indexrelid::regclass::text like '%job_of%' order by 1"
    ),
    [{ name: 'tenantry_queue.job_of_task' }, { name: 'tenantry_queue.job_of_tenant' }]
  )
})

test("an engine that closes stops waiting for another server's migrations", async (t) => {
  const { connectionString, query } = await postgresDatabase(t, { sql: '' })
  const engine = await openEngine(t, {
    provider: 'postgres',
    postgres: { connectionString },
    tables: { authors: { columns: { id: { type: 'integer', primaryKey: true } } } }
  })
  const holder = new pg.Client({ connectionString })
  await holder.connect()
  t.teardown(() => holder.end())
  await holder.query('select pg_advisory_lock(7236815402)')
  const others = (condition: string) =>
    query(`select 1 from pg_stat_activity where datname = current_database() and pid not in (pg_backend_pid(), $1) and ${condition}`, [
      holderPid
    ])
  const [holderPid] = (await holder.query<{ pid: number }>('select pg_backend_pid() as pid')).rows.map(({ pid }) => pid)
  const applying = rejection(engine.migration.apply())
  while ((await others("query = 'rollback'")).length === 0) await pause(lookMs)
  await engine.close()
  t.ok(isFailure(await applying, 'databaseUnavailable'))
  while ((await others('true')).length > 0) await pause(lookMs)
  t.pass('no connection remains')
})
