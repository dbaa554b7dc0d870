import { test } from 'tap'
import { postgresDatabase } from '../../helpers/postgres.js'
import { onEachEngine, openEngine, run } from './open.js'

test('the catalogue contains columns, keys and references of tables and views', (t) =>
  onEachEngine(t, async (t, engine) => {
    await run(
      engine,
      "create type mood as enum ('sad', 'ok')",
      "create domain email as text not null check (value like '%@%')",
      'create table authors (id int generated always as identity primary key, name varchar(20) unique)',
      `create table books (tenant_id text not null, id uuid default gen_random_uuid(), author_id int references authors (id), price numeric(8, 2) not null,
      double numeric generated always as (price * 2) stored, mood mood, tags text[], grid int[][], mail email, deleted boolean default false, deleted_at timestamptz, primary key (tenant_id, id))`,
      'create unique index on books (price, mood)',
      'create unique index on books (lower(mail))',
      'create unique index on books (mood) where deleted',
      'create view cheap as select id, price from books where price < 5',
      'create materialized view dear as select id, tenant_id from books where price > 5',
      'create view tagged as select tags, grid from books',
      'create table copies as select tags, grid, mood from books',
      'create table events (id int, day date) partition by range (day)',
      'create table events_old partition of events default'
    )
    const { tables } = await engine.refresh()
    t.strictSame([...tables.keys()].sort(), ['authors', 'books', 'cheap', 'copies', 'dear', 'events', 'tagged'], 'a partition is not listed as a table')
    const books = tables.get('books')
    t.match(books, {
      primaryKey: ['tenant_id', 'id'],
      uniqueKeys: [['price', 'mood']],
      foreignKeys: [{ name: 'books_author_id_fkey', columns: ['author_id'], referencedTable: 'authors', referencedColumns: ['id'] }],
      tenantScoped: true,
      softDelete: true,
      view: false
    })
    t.equal(books?.uniqueKeys.length, 1, 'neither expressions nor conditions make a key')
    const column = (name: string) => books?.columns.get(name)
    t.strictSame(column('tenant_id'), { name: 'tenant_id', type: 'text', notNull: true, hasDefault: false, generated: false })
    t.match(column('id'), { type: 'uuid', notNull: true, hasDefault: true })
    t.match(column('price'), { type: 'numeric', notNull: true, hasDefault: false })
    t.match(column('double'), { generated: true, hasDefault: false })
    t.match(column('mood'), { type: 'mood', labels: ['sad', 'ok'] })
    t.strictSame(column('tags'), { name: 'tags', type: 'text[]', notNull: false, hasDefault: false, generated: false })
    t.match(column('grid'), { type: 'integer[]', dimensions: 2 })
    const copies = tables.get('copies')?.columns
    for (const name of ['tags', 'grid']) t.equal(copies?.get(name)?.dimensions, 0, 'unknown')
    t.equal(copies?.get('mood')?.dimensions, undefined)
    t.equal(tables.get('tagged')?.columns.get('tags')?.dimensions, undefined)
    t.match(column('mail'), { type: 'text', notNull: true })
    t.match(tables.get('authors'), { uniqueKeys: [['name']], tenantScoped: false, softDelete: false })
    t.match(tables.get('authors')?.columns.get('id'), { generated: true, hasDefault: true })
    t.match(tables.get('authors')?.columns.get('name'), { type: 'character varying' })
    t.match(tables.get('cheap'), { view: true, primaryKey: { length: 0 } })
    t.match(tables.get('dear'), { view: true, tenantScoped: true })
  }))

test('arrays of a view have unknown dimensions if they may come from a column of several or unknown ones', (t) =>
  onEachEngine(t, async (t, engine) => {
    await run(
      engine,
      'create table boards (id int, tags text[], grid int[][], flat int[])',
      'create table copies as select grid as copied from boards',
      'create view seen as select id, tags, grid as cells from boards',
      'create view over_view as select upper(tags[1]) as first, id, tags, c.cells from seen c join boards using (id, tags)',
      'create view first_rows as select cells[1:1] as row, cells[1][1] as cell, id from over_view',
      'create materialized view kept as select flat from boards union all select copied from copies',
      'create view flat_only as select id, tags, flat from boards',
      'create view over_flat as select tags, array_agg(id) as ids from flat_only group by tags'
    )
    const { tables } = await engine.refresh()
    const unknown = [...tables.values()].filter(({ view }) => view).flatMap(({ name, columns }) =>
      [...columns.values()].filter(({ dimensions }) => dimensions === 0).map((column) => `${name}.${column.name}`)
    )
    t.strictSame(unknown.sort(), ['first_rows.row', 'kept.flat', 'over_view.cells', 'seen.cells'])
  }))

test('the catalogue shows which columns can have different texts that are equal', async (t) => {
  const { connectionString } = await postgresDatabase(t, {
    sql: `create collation nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
      create domain word as text collate nocase;
      create table words (id int primary key, own text collate nocase, short varchar(5) collate nocase, word word, many text[] collate nocase, plain text, fixed text collate "C");
      create view seen as select id, own from words`
  })
  const engine = await openEngine(t, { provider: 'postgres', postgres: { connectionString } })
  const loose = (table: string) => {
    const columns = [...engine.catalogue.tables.get(table)?.columns.values() ?? []]
    return columns.filter(({ nondeterministic }) => nondeterministic === true).map(({ name }) => name)
  }
  t.strictSame(loose('words'), ['own', 'short', 'word', 'many'])
  t.strictSame(loose('seen'), ['own'])
})

test('the catalogue shows which tables inherit, also indirectly', (t) =>
  onEachEngine(t, async (t, engine) => {
    await run(
      engine,
      'create table things (id int)',
      'create table named (name text)',
      'create table cars () inherits (things, named)',
      'create table red_cars () inherits (cars)',
      'create table parts (id int) partition by range (id)',
      'create table parts_all partition of parts default',
      'create index on parts (id)'
    )
    const { tables } = await engine.refresh()
    t.strictSame(tables.get('red_cars')?.family, ['cars', 'named', 'things'])
    t.strictSame(tables.get('named')?.family, ['cars', 'red_cars', 'things'])
    t.equal(tables.get('parts')?.family, undefined)
    await run(engine, 'alter table red_cars no inherit cars')
    const changed = await engine.refresh()
    t.strictSame(changed.tables.get('things')?.family, ['cars', 'named'])
    t.equal(changed.tables.get('red_cars')?.family, undefined)
  }))

test('the catalogue shows which tables without a tenant column have child tables with one', (t) =>
  onEachEngine(t, async (t, engine) => {
    await run(
      engine,
      'create schema other',
      'create table things (id int)',
      'create table cars () inherits (things)',
      'create table red_cars (tenant_id text) inherits (cars)',
      'create table other.boats (tenant_id text) inherits (things)',
      'create table owned (id int, tenant_id text)',
      'create table owned_more () inherits (owned)',
      'create table parts (id int, tenant_id text) partition by range (id)',
      'create table parts_all partition of parts default'
    )
    const { tables } = await engine.refresh()
    t.strictSame(tables.get('things')?.tenantChildren, ['boats', 'red_cars'])
    t.strictSame(tables.get('cars')?.tenantChildren, ['red_cars'])
    for (const name of ['red_cars', 'owned', 'owned_more', 'parts']) t.equal(tables.get(name)?.tenantChildren, undefined, name)
  }))

test('listeners receive each change once, and nothing if nothing changed', (t) =>
  onEachEngine(t, async (t, engine) => {
    const heard: string[][] = []
    const end = engine.onCatalogue(({ tables }) => {
      heard.push([...tables.keys()])
    })
    await run(engine, 'create table notes (id int)')
    await Promise.all([engine.refresh(), engine.refresh()])
    await engine.refresh()
    t.strictSame(heard, [['notes']])
    end()
    await run(engine, 'drop table notes')
    await engine.refresh()
    t.strictSame(heard, [['notes']])
    t.strictSame([...engine.catalogue.tables.keys()], [])

    const running = engine.refresh()
    await new Promise((resolve) => setImmediate(resolve))
    const [after, other] = [engine.refresh(), engine.refresh()]
    t.not(after, running, 'a read that is already running may miss a change')
    t.equal(other, after, 'concurrent reads share one')
    await after
  }))

test('only the schema in the document belongs to the application', async (t) => {
  const { connectionString, query } = await postgresDatabase(t)
  await query(
    "create schema app; create type app.mood as enum ('ok'); create table app.notes (id int, mood app.mood); create table public.others (id int)"
  )
  const engine = await openEngine(t, { provider: 'postgres', postgres: { connectionString, schema: 'app' } })
  t.strictSame([...engine.catalogue.tables.keys()], ['notes'])
  t.match(engine.catalogue.tables.get('notes')?.columns.get('mood'), { type: 'app.mood', labels: ['ok'] })
})

test("the server's own and PostgreSQL's tables cannot belong to the application", async (t) => {
  const { connectionString } = await postgresDatabase(t)
  for (const schema of ['tenantry', 'pg_catalog', 'information_schema']) {
    await t.rejects(openEngine(t, { provider: 'postgres', postgres: { connectionString, schema } }), /another postgres\.schema/)
  }
})

test("the catalogue contains a document's declarations before the database does", async (t) => {
  const { connectionString, query } = await postgresDatabase(t)
  await query('create table notes (id int primary key)')
  const engine = await openEngine(t, {
    provider: 'postgres',
    postgres: { connectionString },
    tables: {
      notes: { columns: { id: { type: 'integer', primaryKey: true }, title: { type: 'text' } }, softDelete: true },
      tags: {
        columns: {
          id: { type: 'uuid', primaryKey: true, default: 'uuid()' },
          note_id: { type: 'integer', references: 'notes.id', notNull: true }
        }
      }
    }
  })
  const { tables } = engine.catalogue
  t.match(tables.get('notes'), { softDelete: true, primaryKey: ['id'] })
  t.strictSame([...tables.get('notes')?.columns.keys() ?? []].sort(), ['deleted', 'deleted_at', 'id', 'title'])
  t.match(tables.get('tags'), {
    primaryKey: ['id'],
    foreignKeys: [{ columns: ['note_id'], referencedTable: 'notes', referencedColumns: ['id'] }]
  })
  t.match(tables.get('tags')?.columns.get('id'), { type: 'uuid', hasDefault: true, notNull: true })
})
