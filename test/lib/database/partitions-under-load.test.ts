import pg from 'pg'
import { test } from 'tap'
import type { DeclaredTables } from '../../../lib/database/declared-tables.js'
import { nameAfterSystem } from '../../helpers/migrations.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { longestBlock, openEngine, rejection } from './open.js'

const rows = 200_000
const sql = `
create table authors (id int primary key);
insert into authors select generate_series(1, 100);
create table notes (id int primary key, tenant_id text not null, title text, author_id int) partition by range (id);
create table notes_low partition of notes for values from (0) to (80000);
create table notes_high partition of notes for values from (80000) to (maxvalue) partition by range (id);
create table notes_middle partition of notes_high for values from (80000) to (160000);
create table notes_top partition of notes_high for values from (160000) to (maxvalue);
insert into notes select n, 'a', 'title ' || n, n % 100 + 1 from generate_series(1, ${rows}) n`
const tables: DeclaredTables = {
  authors: { columns: { id: { type: 'integer', primaryKey: true } } },
  notes: {
    columns: {
      id: { type: 'integer', primaryKey: true },
      title: { type: 'text' },
      author_id: { type: 'integer', references: 'authors.id' }
    },
    tenantScoped: true,
    unique: [['id', 'title']],
    indexes: [['author_id']]
  }
}
const indexes = (query: (text: string) => Promise<Record<string, unknown>[]>) =>
  query(
    "select indrelid::regclass::text as table, count(*)::int as all, count(*) filter (where indisvalid)::int as valid from pg_index where indrelid::regclass::text like 'notes%' group by 1 order by 1"
  )
/** Ends the session at the end of a command, within its transaction. A concurrent index build stays behind, invalid. */
const cutAtCommand = `
create sequence commands_run;
create sequence commands_until_cut;
create function cut_at_command() returns event_trigger language plpgsql as $$
begin
  if nextval('commands_run') = (select last_value from commands_until_cut) then
    perform pg_terminate_backend(pg_backend_pid());
    perform pg_sleep(60);
  end if;
end $$;
create event trigger cut_at_command on ddl_command_end execute function cut_at_command()`
const complete = ['notes', 'notes_high', 'notes_low', 'notes_middle', 'notes_top'].map((table) => ({ table, all: 3, valid: 3 }))

test('keys, indexes and references of a partitioned table with rows are built without blocking it', async (t) => {
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
  const reads = repeat((count) => reader.query('select title from notes where id = $1', [count * 7 % rows]))

  await reading.query('begin isolation level repeatable read; select count(*) from notes where id < 10')
  let waits = 0
  let freed: Promise<unknown> = Promise.resolve()
  const applying = engine.migration.apply(undefined, ({ state }) => {
    if (state === 'waiting' && ++waits === 3) freed = reading.query('rollback')
  }).finally(() => done.abort())
  const [applied, written, read] = await Promise.all([applying, writes, reads])
  await freed
  t.strictSame(applied, [nameAfterSystem('alter_notes'), nameAfterSystem('isolate_notes', 2)])
  t.ok(waits >= 3, 'a step was retried while the transaction was open')
  t.ok(written > 0 && read > 0)
  t.strictSame(await engine.pendingMigrations(), [])
  t.strictSame(await indexes(query), complete)
  t.strictSame(
    await query(
      "select conrelid::regclass::text as table from pg_constraint where contype = 'f' and convalidated and conrelid::regclass::text like 'notes%' order by 1"
    ),
    ['notes', 'notes_high', 'notes_low', 'notes_middle', 'notes_top'].map((table) => ({ table }))
  )
  t.match(
    await rejection(writer.query("insert into notes (id, tenant_id, author_id) values (999999, 'a', 1000)")),
    { code: '23503' },
    'the reference is enforced'
  )
})

test('a migration of a partitioned table that was interrupted at any step continues where it stopped', async (t) => {
  const { connectionString, query } = await postgresDatabase(t, {
    sql: sql.replace(String(rows), '1000').replaceAll('80000', '300').replaceAll('160000', '600')
  })
  const engine = await openEngine(t, { provider: 'postgres', postgres: { connectionString }, tables })
  await query(cutAtCommand)
  const isCut = async (command: number) => {
    await query(`select setval('commands_until_cut', ${command}), setval('commands_run', 1, false)`)
    const [run] = await Promise.allSettled([engine.migration.apply()])
    return run?.status === 'rejected'
  }
  let cuts = 0
  while (await isCut(cuts + 1)) cuts++
  t.ok(cuts > 3, `${cuts} runs were interrupted`)
  t.strictSame((await engine.migration.plan()).migrations, [])
  t.strictSame(await indexes(query), complete)
})

test('a partitioned table rejects unsupported declarations with the reason', async (t) => {
  const { connectionString } = await postgresDatabase(t, { sql: sql.replace(String(rows), '1000') })
  const wanted: DeclaredTables = {
    ...tables,
    notes: { columns: { id: { type: 'integer', primaryKey: true }, title: { type: 'text', unique: true } }, tenantScoped: true }
  }
  const engine = await openEngine(t, { provider: 'postgres', postgres: { connectionString }, tables: wanted })
  const { warnings } = await engine.migration.plan()
  t.match(
    warnings.join('\n'),
    /notes is partitioned, has rows and lacks the unique key \("tenant_id", "title"\): a unique key of it must have the columns \(id\), which define the partitions/
  )
})
