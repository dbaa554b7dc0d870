import { test } from 'tap'
import { TenantryError } from '../../../lib/errors.js'
import { postgresDatabase, postgresSection } from '../../helpers/postgres.js'
import { onEachEngine, openEngine, rejection, run, withoutTenant } from './open.js'

const tables = [
  "create domain shelf as text check (value <> 'forbidden') not null",
  `create table books (id int primary key, isbn text unique, title text not null check (title <> 'forbidden'), pages smallint,
    born date, tenant_id text, constraint together unique (tenant_id, pages))`,
  'create table reviews (id int primary key, book_id int references books (id))',
  'create unique index books_lower on books (lower(title)) where pages is null',
  "insert into books values (1, 'one', 'The secret title', 7, null, 'a')",
  'insert into reviews values (1, 1)'
]

test('a constraint error names the columns and no values', (t) =>
  onEachEngine(t, async (t, engine) => {
    await run(engine, ...tables)
    await engine.refresh()
    const refused = async (text: string) => {
      const error = await rejection(engine.text({ text }, [], withoutTenant))
      if (!(error instanceof TenantryError)) throw error
      const body = JSON.stringify(error.toBody('r'))
      t.notMatch(body, /secret|insert|books_|update /i, 'nothing of SQL, constraints or rows')
      return { code: error.code, status: error.statusCode, details: error.extras.details }
    }
    t.match(await refused("insert into books values (1, 'two', 'x')"), {
      code: 'TENANTRY_CONFLICT',
      status: 409,
      details: [{ path: '/id', keyword: 'unique' }]
    })
    t.match(await refused("insert into books values (2, 'one', 'x')"), {
      code: 'TENANTRY_CONFLICT',
      details: [{ path: '/isbn', keyword: 'unique' }]
    })
    const together = await refused("insert into books values (2, 'two', 'x', 7, null, 'a')")
    t.match(together, { code: 'TENANTRY_CONFLICT', details: [{ path: '/pages', message: /pages/ }] })
    t.equal(Array.isArray(together.details) && together.details.length, 1, 'the tenant does not come from the caller')
    t.match(await refused("insert into books values (2, 'two', null)"), {
      code: 'TENANTRY_CONSTRAINT_VIOLATED',
      status: 400,
      details: [{ path: '/title', keyword: 'required' }]
    })
    t.match(await refused("insert into books values (2, 'two', 'forbidden')"), {
      code: 'TENANTRY_CONSTRAINT_VIOLATED',
      details: [{ path: '/title', keyword: 'check' }]
    })
    for (const [value, keyword] of [["'forbidden'", 'check'], ['null', 'required']]) {
      t.match(await refused(`select ${value}::shelf::text`), {
        code: 'TENANTRY_CONSTRAINT_VIOLATED',
        details: [{ path: '', message: 'a value does not satisfy the rules of its type "shelf"', keyword }]
      })
    }
    t.match(await refused('insert into reviews values (2, 9)'), {
      code: 'TENANTRY_CONSTRAINT_VIOLATED',
      details: [{ path: '/book_id', keyword: 'foreignKey' }]
    })
    t.match(await refused('delete from books where id = 1'), {
      code: 'TENANTRY_CONSTRAINT_VIOLATED',
      details: [{ path: '/book_id', message: 'the reference by book_id in reviews would have no matching row' }]
    })
    t.strictSame(await refused("insert into books (id, title) values (3, 'x'), (4, 'X')"), {
      code: 'TENANTRY_CONFLICT',
      status: 409,
      details: undefined
    })
  }))

test('a constraint error names the columns of changed constraints when the tables were read again', (t) =>
  onEachEngine(t, async (t, engine) => {
    await run(engine, 'create table things (id int primary key, a int, b int, constraint rule check (a > 0), constraint one unique (a))')
    await engine.refresh()
    await run(
      engine,
      'alter table things drop constraint rule, add constraint rule check (b > 0), add constraint added check (a < 100)',
      'alter table things rename constraint one to renamed',
      'insert into things values (1, 1, 1)'
    )
    let changes = 0
    t.teardown(engine.onCatalogue(() => changes++))
    const { tables } = engine.catalogue
    t.equal((await engine.refresh()).tables, tables)
    t.equal(changes, 0, 'routes are not compiled again')
    for (const [values, column] of [['2, 2, -1', 'b'], ['2, 100, 1', 'a'], ['2, 1, 1', 'a']] as const) {
      const error = await rejection(engine.text({ text: `insert into things values (${values})` }, [], withoutTenant))
      t.match(error, { extras: { details: [{ path: `/${column}` }] } }, values)
    }
  }))

test("a value of the wrong type is the caller's mistake", (t) =>
  onEachEngine(t, async (t, engine) => {
    const refused = (type: string, value: unknown) => rejection(engine.text({ text: `select $1::${type}::text` }, [value], withoutTenant))
    for (
      const [type, value] of [
        ['uuid', 'x'],
        ['smallint', '70000'],
        ['date', '2026-02-30'],
        ['int', ''],
        ['text', 'a\0b'],
        ['jsonb', '{'],
        ['int[]', '1,2'],
        ['tsvector', "'"],
        ['jsonpath', '$$$'],
        ['regclass', '"']
      ] as const
    ) {
      t.match(await refused(type, value), { code: 'TENANTRY_INVALID_VALUE', statusCode: 400 }, `${type} of ${JSON.stringify(value)}`)
    }
  }))

test('a text that names nothing in the database is a value that does not fit', (t) =>
  onEachEngine(t, async (t, engine) => {
    const refused = (type: string, value: unknown) => rejection(engine.text({ text: `select $1::${type}::text` }, [value], withoutTenant))
    for (
      const [type, texts] of [
        ['regclass', ['zzz', 'zzz.t', 'a.b.c']],
        ['regclass[]', ['{zzz}']],
        ['regtype', ['zzz', 'zzz.t', 'a.b.c', '-1', 'int4(']],
        ['regproc', ['zzz', 'abs']],
        ['regprocedure', ['zzz(int)', 'abs(zzz)']],
        ['regoper', ['<<<>>>', '+']],
        ['regoperator', ['<#>(int,int)', '+(int)']],
        ['regrole', ['zzz']],
        ['regnamespace', ['zzz']],
        ['regconfig', ['zzz']],
        ['regdictionary', ['zzz']],
        ['regcollation', ['zzz']]
      ] as const
    ) {
      for (const text of texts) {
        const error = await refused(type, text)
        t.match(error, { code: 'TENANTRY_INVALID_VALUE', statusCode: 400 }, `${type} of ${JSON.stringify(text)}`)
        if (error instanceof TenantryError) t.notMatch(String(error.cause), text, 'the logged cause has no values')
      }
    }
  }))

test('a name in a statement that is missing in the database is no mistake of the caller', (t) =>
  onEachEngine(t, async (t, engine) => {
    await run(
      engine,
      "create function indirect (given text) returns text language plpgsql as $$ begin return (select 1 from zzz where given = 'x'); end $$",
      `create function dynamic (given text) returns text language plpgsql
        as $$ declare found text; begin execute 'select 1 from zzz where $1 = ''x''' into found using given; return found; end $$`,
      "create domain checked as text check (indirect(value) = '1')"
    )
    for (
      const text of [
        'select a from zzz where $1::text is null',
        'select zzz.f($1::text)::text',
        'select $1::zzz::text',
        "select 'zzz'::regclass::text where $1::text is null",
        "select nextval('zzz.s')::text where $1::text is null",
        'select indirect($1::text)',
        'select dynamic($1::text)',
        'select $1::checked::text'
      ]
    ) {
      t.match(await rejection(engine.text({ text }, ['x'], withoutTenant)), { code: 'TENANTRY_SCHEMA_CHANGED', statusCode: 503 }, text)
    }
  }))

test("a mistake in the server's own SQL is not a catalogue error", (t) =>
  onEachEngine(t, async (t, engine) => {
    t.notOk(await rejection(engine.text({ text: 'selec 1' }, [], withoutTenant)) instanceof TenantryError)
  }))

test('a missing table or column triggers a reload of the catalogue', (t) =>
  onEachEngine(t, async (t, engine) => {
    await run(engine, 'create table notes (id int, title text)')
    await engine.refresh()
    await run(engine, 'alter table notes drop title')
    const columns = new Promise<string[]>((resolve) => {
      const end = engine.onCatalogue(({ tables }) => {
        end()
        resolve([...tables.get('notes')?.columns.keys() ?? []])
      })
    })
    t.match(await rejection(engine.text({ text: 'select title from notes' }, [], withoutTenant)), {
      code: 'TENANTRY_SCHEMA_CHANGED',
      statusCode: 503,
      headers: { 'retry-after': '1' }
    })
    t.strictSame(await columns, ['id'])
  }))

test('a statement that takes too long is canceled, and reported as a busy database', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const engine = await openEngine(t, { provider: 'postgres', postgres: { connectionString, pool: { max: 1, statementTimeoutMs: 1000 } } })
  t.match(await rejection(engine.text({ text: 'select pg_sleep(60)::text' }, [], withoutTenant)), {
    code: 'TENANTRY_DATABASE_BUSY',
    statusCode: 503,
    headers: { 'retry-after': '1' }
  })
  t.equal(await engine.text({ text: "select 'still there'" }, [], withoutTenant), 'still there')
})

test('a session that the database ends for its long transaction is reported as a busy database', async (t) => {
  const { connectionString, name, query } = await postgresDatabase(t)
  // It applies to the start of the engine too, which takes a busy machine longer than one statement.
  await query(`alter database ${name} set transaction_timeout = '3s'`)
  const engine = await openEngine(t, { provider: 'postgres', postgres: { connectionString, pool: { max: 1 } } })
  const slow = { text: 'select pg_sleep(60)::text' }
  const calls = [
    () => engine.text(slow, [], withoutTenant),
    () => engine.transaction(withoutTenant, (session) => session.text(slow, []))
  ]
  for (const call of calls) {
    t.match(await rejection(call()), { code: 'TENANTRY_DATABASE_BUSY', statusCode: 503, headers: { 'retry-after': '1' } })
    t.equal(await engine.text({ text: "select 'next session'" }, [], withoutTenant), 'next session')
  }
})

test('a deadlock is retried until both transactions succeed', async (t) => {
  const { connectionString, query } = await postgresDatabase(t, {
    sql: 'create table counters (id int primary key, n int); insert into counters values (1, 0), (2, 0)'
  })
  await query("do $$ begin execute format('alter database %I set deadlock_timeout = ''20ms''', current_database()); end $$")
  const engine = await openEngine(t, { provider: 'postgres', postgres: { connectionString } })
  const add = { name: 'add', text: 'update counters set n = n + 1 where id = $1' }
  let attempts = 0
  const both: (() => void)[] = []
  const meet = () =>
    new Promise<void>((resolve) => {
      both.push(resolve)
      if (both.length === 2) { for (const go of both) go() }
    })
  let end = () => {}
  const oneHasEnded = new Promise<void>((resolve) => {
    end = resolve
  })
  const work = (first: number, second: number) =>
    engine.transaction(withoutTenant, async (session) => {
      // On a busy machine, the victim would otherwise take its row again before the other transaction wakes up.
      if (++attempts > 2) await oneHasEnded
      await session.text(add, [first])
      if (attempts <= 2) await meet()
      await session.text(add, [second])
    }).finally(() => end())
  await Promise.all([work(1, 2), work(2, 1)])
  t.ok(attempts > 2, 'one of them was the victim')
  t.strictSame(await query('select n from counters'), [{ n: 2 }, { n: 2 }])
})

test('a retried transaction waits first, so that the other one can end', async (t) => {
  const engine = await openEngine(t, await postgresSection(t))
  t.intercept(Math, 'random', { value: () => 1 })
  const order: string[] = []
  await engine.transaction(withoutTenant, async (session) => {
    order.push('attempt')
    if (order.length > 1) return
    // Fires before the end of a pause that begins later and is longer.
    setTimeout(() => order.push('other'), 10)
    await session.text({ text: "do $$ begin raise sqlstate '40P01'; end $$" }, [])
  })
  t.strictSame(order, ['attempt', 'other', 'attempt'])
})

test('a persistent serialization failure is a busy database', async (t) => {
  const { connectionString, query } = await postgresDatabase(t, {
    sql:
      "create sequence tries; create function fail() returns text language plpgsql as $$ begin perform nextval('tries'); raise sqlstate '40001'; end $$"
  })
  const engine = await openEngine(t, { provider: 'postgres', postgres: { connectionString } })
  t.match(await rejection(engine.text({ text: 'select fail()' }, [], withoutTenant)), { code: 'TENANTRY_DATABASE_BUSY' })
  t.match(await rejection(engine.transaction(withoutTenant, (session) => session.text({ text: 'select fail()' }, []))), {
    code: 'TENANTRY_DATABASE_BUSY'
  })
  t.strictSame(await query('select last_value from tries'), [{ last_value: '8' }], 'the first attempt and three retries, each time')
})
