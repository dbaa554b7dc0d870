import { sql } from 'kysely'
import { test } from 'tap'
import { forEachEngine, postgresDatabase } from '../../helpers/postgres.js'
import { onEachEngine, openEngine, rejection, run, withoutTenant } from './open.js'

test("text returns a statement's single text, or null without a row", (t) =>
  onEachEngine(t, async (t, engine) => {
    const statement = { name: 'numbers', text: "select json_build_object('n', n)::text from generate_series(1, 3) n where n = $1" }
    t.equal(await engine.text(statement, [2], withoutTenant), '{"n" : 2}')
    t.equal(await engine.text(statement, ['3'], withoutTenant), '{"n" : 3}')
    t.equal(await engine.text(statement, [4], withoutTenant), null)
    t.equal(await engine.text({ text: 'select null::text' }, [], withoutTenant), null)
  }))

test('a statement sees the results that its preceding statement waited for', (t) =>
  onEachEngine(t, async (t, engine) => {
    await run(engine, 'create table gate as select 1 as id', 'create table places (n int)')
    const first = { statement: { name: 'gate', text: 'select id::text from gate where id = $1 for update' }, values: [1] }
    const take = { name: 'take', text: "insert into places select count(*) from places having count(*) < 3 returning 'taken'" }
    const taken = await Promise.all(Array.from({ length: 20 }, () => engine.text(take, [], { ...withoutTenant, first })))
    t.equal(taken.filter((text) => text === 'taken').length, 3)
    t.equal(taken.filter((text) => text === null).length, 17, 'rows of the first statement are not returned')
    await run(engine, 'delete from places')
    await t.rejects(engine.text({ text: 'select 1 / 0' }, [], { ...withoutTenant, first: { statement: take, values: [] } }), /A value does not match/)
    t.equal(await engine.text({ text: 'select count(*)::text from places' }, [], withoutTenant), '0', 'both run in one transaction')
  }))

test("values keep PostgreSQL's meaning", (t) =>
  onEachEngine(t, async (t, engine) => {
    const echo = async (type: string, value: unknown) => engine.text({ text: `select to_json($1::${type})::text` }, [value], withoutTenant)
    t.equal(await echo('text', 'a "b" \\ \u00e9 {x}'), '"a \\"b\\" \\\\ \u00e9 {x}"')
    t.equal(await echo('text[]', ['a,b', '"', '\\', null, '', 'NULL', '{}']), '["a,b","\\"","\\\\",null,"","NULL","{}"]')
    t.equal(await echo('integer[]', [[1, 2], [3, 4]]), '[[1,2],[3,4]]')
    t.equal(await echo('jsonb', { a: [1, { b: null }] }), '{"a": [1, {"b": null}]}')
    t.equal(await echo('boolean', false), 'false')
    t.equal(await echo('numeric', 12345678901234567890n), '12345678901234567890')
    t.equal(await echo('timestamptz', new Date('2026-01-02T03:04:05.678Z')), '"2026-01-02T03:04:05.678+00:00"')
    t.equal(await echo('bytea', Buffer.from([0, 255])), '"\\\\x00ff"')
    t.equal(await engine.text({ text: 'select ($1::text is null)::text' }, [undefined], withoutTenant), 'true')
  }))

test('a session uses UTC in any time zone of the machine', (t) =>
  onEachEngine(t, async (t, engine) => {
    t.equal(
      await engine.text({ text: "select to_json('2026-06-01T12:00:00+02:00'::timestamptz)::text" }, [], withoutTenant),
      '"2026-06-01T10:00:00+00:00"'
    )
  }))

test('a transaction commits its writes, or none of them if the work rejects', (t) =>
  onEachEngine(t, async (t, engine) => {
    await run(engine, 'create table notes (id int primary key)')
    const insert = { name: 'insert', text: 'insert into notes values ($1) returning id::text' }
    const written = await engine.transaction(
      withoutTenant,
      async (session) => [await session.text(insert, [1]), await session.text(insert, [2])]
    )
    t.strictSame(written, ['1', '2'])
    const reason = new Error('no')
    t.equal(
      await rejection(engine.transaction(withoutTenant, async (session) => {
        await session.text(insert, [3])
        throw reason
      })),
      reason
    )
    t.equal(await engine.text({ text: "select string_agg(id::text, ',' order by id) from notes" }, [], withoutTenant), '1,2')
  }))

test('a transaction with a failed statement is not committed, even if the work hides the error', (t) =>
  onEachEngine(t, async (t, engine) => {
    await run(engine, 'create table notes (id int primary key)')
    await t.rejects(
      engine.transaction(withoutTenant, async (session) => {
        await session.text({ text: 'insert into notes values (1)' }, [])
        await session.text({ text: 'insert into notes values (1)' }, []).catch(() => {})
      }),
      /nothing was committed/
    )
    t.equal(await engine.text({ text: 'select count(*)::text from notes' }, [], withoutTenant), '0')
  }))

test('a transaction that has ended accepts no statements', (t) =>
  onEachEngine(t, async (t, engine) => {
    const session = await engine.transaction(withoutTenant, async (session) => session)
    await t.rejects(session.text({ text: 'select 1::text' }, []), /has ended/)
  }))

test('two transactions never share a session', (t) =>
  onEachEngine(t, async (t, engine) => {
    await run(engine, 'create table notes (id int)')
    const failing = rejection(engine.transaction(withoutTenant, async (session) => {
      await session.text({ text: 'insert into notes values (1)' }, [])
      await new Promise((resolve) => setImmediate(resolve))
      throw new Error('rolled back')
    }))
    const others = Array.from({ length: 5 }, (_, index) =>
      engine.transaction(withoutTenant, (session) => session.text({ text: 'insert into notes values ($1)' }, [index + 2])))
    await Promise.all([failing, ...others, engine.text({ text: 'insert into notes values (7)' }, [], withoutTenant)])
    t.equal(await engine.text({ text: "select string_agg(id::text, ',' order by id) from notes" }, [], withoutTenant), '2,3,4,5,6,7')
  }))

test("kysely reads and writes the server's tables, in transactions too", (t) =>
  onEachEngine(t, async (t, engine) => {
    await engine.migration.apply()
    const { kysely } = engine
    const document = { tenant_id: 'a', collection: 'notes', id: '1', data: { n: [1] } }
    await kysely.insertInto('tenantry.documents').values(document).execute()
    t.match(await kysely.selectFrom('tenantry.documents').selectAll().execute(), [{ ...document, created_at: Date }])
    const updated = await kysely.updateTable('tenantry.documents').set({ data: {} }).where('id', '=', '1').executeTakeFirst()
    t.equal(updated.numUpdatedRows, 1n)
    await t.rejects(
      kysely.transaction().setIsolationLevel('serializable').execute(async (trx) => {
        await trx.deleteFrom('tenantry.documents').execute()
        const level = await sql<{ transaction_isolation: string }>`show transaction_isolation`.execute(trx)
        t.strictSame(level.rows, [{ transaction_isolation: 'serializable' }])
        throw new Error('rolled back')
      }),
      /rolled back/
    )
    t.match(await kysely.selectFrom('tenantry.documents').select(({ fn }) => fn.countAll().as('n')).execute(), [{ n: '1' }])
    await t.rejects(kysely.insertInto('tenantry.documents').values(document).execute(), { code: 'TENANTRY_CONFLICT' })
  }))

test('a prepared statement is prepared again after its table changed', (t) =>
  onEachEngine(t, async (t, engine) => {
    await run(engine, 'create table notes (id int)', 'insert into notes values (1)')
    const statement = { name: 'star', text: 'select * from notes' }
    const rows = () => engine.transaction(withoutTenant, (session) => session.rows(statement))
    // A statement is prepared on its third use.
    for (let use = 1; use <= 3; use++) t.strictSame(await rows(), [{ id: 1 }])
    await run(engine, "alter table notes add title text default 'x'")
    t.strictSame(await rows(), [{ id: 1, title: 'x' }])
  }))

test('a statement that could not be prepared works once its table exists', (t) =>
  onEachEngine(t, async (t, engine) => {
    const statement = { name: 'late', text: 'select count(*)::text from late' }
    for (let use = 1; use <= 3; use++) await t.rejects(engine.text(statement, [], withoutTenant), { code: 'TENANTRY_SCHEMA_CHANGED' })
    await run(engine, 'create table late (id int)')
    t.equal(await engine.text(statement, [], withoutTenant), '0')
  }))

test('statements run without JIT compilation, which takes longer than they do', (t) =>
  onEachEngine(t, async (t, engine) => {
    t.equal(await engine.text({ name: 'jit', text: "select current_setting('jit')" }, [], withoutTenant), 'off')
  }))

test('behind a transaction pooler no state is kept in a session', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const engine = await openEngine(t, { provider: 'postgres', postgres: { connectionString, preparedStatements: false, pool: { max: 1 } } })
  const settings = "select concat_ws(' ', current_setting('timezone'), current_setting('statement_timeout'), current_setting('jit'))"
  t.equal(await engine.text({ name: 'q', text: settings }, [], withoutTenant), 'UTC 30s off')
  for (let use = 1; use <= 3; use++) {
    t.equal(await engine.text({ name: 'q', text: 'select count(*)::text from pg_prepared_statements' }, [], withoutTenant), '0')
  }
  const left = await sql<{ tenant: string }>`select current_setting('app.tenant_id') as tenant`.execute(engine.kysely)
  t.strictSame(left.rows, [{ tenant: '*' }])
})

test('close waits for running statements, rejects later ones, and may be called twice', (t) =>
  forEachEngine(t, async (t, database) => {
    const engine = await openEngine(t, database)
    let finish = (): void => {}
    let done = false
    const started = new Promise<void>((resolve) => {
      engine.transaction(withoutTenant, async (session) => {
        await session.text({ text: 'select 1::text' }, [])
        resolve()
        await new Promise<void>((resolve) => {
          finish = resolve
        })
        await session.text({ text: 'select 1::text' }, [])
        done = true
      }).catch(() => {})
    })
    await started
    const closed = Promise.all([engine.close(), engine.close()]).then(() => done)
    await t.rejects(engine.text({ text: 'select 1::text' }, [], withoutTenant), { code: 'TENANTRY_DATABASE_UNAVAILABLE' })
    finish()
    t.equal(await closed, true)
  }))
