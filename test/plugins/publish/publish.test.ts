import type { FastifyInstance } from 'fastify'
import { CompiledQuery } from 'kysely'
import pg from 'pg'
import type { Test } from 'tap'
import { test } from 'tap'
import { platformRef } from '../../../lib/identity/tenant-ref.js'
import { type DatabaseSection, forEachEngine } from '../../helpers/postgres.js'
import { type TestDocument, testServer } from '../../helpers/server.js'
import { bearer } from '../../helpers/tokens.js'

const document: TestDocument = {
  tables: {
    notes: {
      tenantScoped: true,
      columns: {
        id: { type: 'uuid', primaryKey: true, default: 'uuid()' },
        title: { type: 'text', notNull: true },
        rating: { type: 'integer' },
        data: { type: 'jsonb' },
        slug: { type: 'text', unique: true }
      }
    },
    countries: { columns: { code: { type: 'text', primaryKey: true }, name: { type: 'text' } } }
  }
}

const ops = bearer({ role: 'admin', sub: 'ops' })
const acme = { ...ops, 'x-tenant-id': 'acme' }

/** Checks responses. Errors here may contain SQL, unlike those of any other endpoint. */
interface Shown {
  readonly status: number
  readonly body: Record<string, unknown> & { sql?: string, details?: { path: string, message: string }[], data?: Record<string, unknown> }
}

type Post = (url: string, body?: unknown, headers?: Record<string, string>) => Promise<Shown>

const poster = (app: FastifyInstance): Post => async (url, body, headers = ops) => {
  const response = await app.inject({ method: 'POST', url, headers, ...body !== undefined && { payload: Object(body) } })
  return { status: response.statusCode, body: response.json() }
}

const runOn = (app: FastifyInstance) => async (text: string, ...values: unknown[]) =>
  (await app.db.executeQuery<Record<string, unknown>>(CompiledQuery.raw(text, values))).rows

/** Runs a script like a reader would: pasted into `psql`; the embedded engine has none. */
async function runScript (app: FastifyInstance, engine: DatabaseSection, sql = ''): Promise<void> {
  if (engine.provider === 'postgres') {
    const client = new pg.Client({ connectionString: engine.postgres.connectionString })
    await client.connect()
    await client.query(sql).finally(() => client.end())
    return
  }
  const statements = sql.split(/;\n/).map((text) => text.trim()).filter((text) => text !== '' && !/^(begin|commit)$/.test(text))
  await app.engine.transaction({ tenant: platformRef }, async (session) => {
    for (const text of statements) await session.rows({ text })
  })
}

async function served (t: Test, engine: DatabaseSection): Promise<void> {
  const app = await testServer(t, document, { engine, tenants: ['acme', 'globex'] })
  const post = poster(app)
  const run = runOn(app)
  const rows = async (table: string) => (await run(`select count(*)::int as n from ${table}`))[0]?.['n']
  const entity = (table: string, data: object, headers?: Record<string, string>) => post('/publish/entity', { table, data }, headers)

  await t.test('the tables are listed', async (t) => {
    t.strictSame((await post('/publish/init', { checkTables: ['notes', 'countries', 'notes'] })).body, {
      ready: true,
      tables: { notes: true, countries: true },
      missing: []
    })
    t.strictSame((await post('/publish/init', { checkTables: [] })).body, { ready: true, tables: {}, missing: [] })
    const strange = ['secrets', 'tenantry.secrets', 'pg_class', 'toString', '"notes"', 'notes; drop table notes', 'Notes']
    t.strictSame((await post('/publish/init', { checkTables: strange })).body, {
      ready: false,
      tables: Object.fromEntries(strange.map((name) => [name, false])),
      missing: strange
    }, 'no table of the server, of PostgreSQL or of JavaScript')
    for (
      const body of [{}, { checkTables: 'notes' }, { checkTables: [''] }, { checkTables: ['x'.repeat(64)] }, { checkTables: [1] }, {
        checkTables: Array(101).fill('a')
      }, { checkTables: [], more: 1 }]
    ) {
      t.match(
        await post('/publish/init', body),
        { status: 400, body: { code: 'TENANTRY_VALIDATION_FAILED' } },
        JSON.stringify(body).slice(0, 60)
      )
    }
  })

  await t.test('a record is written for its tenant', async (t) => {
    const one = await entity('notes', { title: 'Bread {{secret:X}}', rating: 5, data: { a: [1, '{{env.HOME}}'] } }, acme)
    t.match(one, {
      status: 201,
      body: {
        success: true,
        table: 'notes',
        data: { title: 'Bread {{secret:X}}', tenant_id: 'acme', rating: 5, data: { a: [1, '{{env.HOME}}'] } }
      }
    })
    t.strictSame(
      await run('select tenant_id, title from notes'),
      [{ tenant_id: 'acme', title: 'Bread {{secret:X}}' }],
      'nothing in it is a template'
    )
    t.match(await entity('notes', { title: 'Rye' }, ops), { status: 400, body: { code: 'TENANTRY_TENANT_REQUIRED' } })
    t.match(await entity('notes', { title: 'Rye', tenant_id: 'globex' }, acme), { status: 403 })
    t.match(await entity('notes', { title: 'Rye', tenant_id: 'acme' }, acme), { status: 201 })
    t.match(
      await entity('countries', { code: 'at', name: 'Austria' }, acme),
      { status: 201, body: { data: { code: 'at' } } },
      'a table without a tenant'
    )
    t.equal(await rows('notes'), 2)
    const entries = await run(
      "select tenant_id, user_id, target, address, details from tenantry.audit_log where action = 'publish.entity' order by id"
    )
    const id = String(one.body.data?.['id'])
    t.match(entries, [
      { tenant_id: 'acme', user_id: 'ops', target: `notes:${id}`, address: null, details: { table: 'notes' } },
      { tenant_id: 'acme', address: null },
      { tenant_id: '', user_id: 'ops', target: 'countries:at', address: '127.0.0.1' }
    ])
    t.equal(entries.length, 3, 'a rejected record has none')
  })

  await t.test('violated constraints are reported like in routes', async (t) => {
    t.match(await entity('countries', { code: 'at' }), {
      status: 409,
      body: { code: 'TENANTRY_CONFLICT', details: [{ path: '/body/data/code' }] }
    })
    t.match(await entity('notes', { rating: 1 }, acme), {
      status: 400,
      body: { code: 'TENANTRY_CONSTRAINT_VIOLATED', details: [{ path: '/body/data/title', keyword: 'required' }] }
    })
    t.match(await entity('notes', { title: 'x', rating: 'many' }, acme), {
      status: 400,
      body: { code: 'TENANTRY_VALIDATION_FAILED', details: [{ path: '/body/data/rating' }] }
    })
    t.match(await entity('notes', { title: 'x', slug: 'a' }, acme), { status: 201 })
    t.match(await entity('notes', { title: 'x', slug: 'a' }, acme), { status: 409 })
    t.match(
      await entity('notes', { title: 'x', slug: 'a' }, { ...ops, 'x-tenant-id': 'globex' }),
      { status: 201 },
      'unique within a tenant'
    )
    await run("create function dropped() returns trigger language plpgsql as 'begin return null; end'")
    await run('create trigger dropped before insert on countries for each row execute function dropped()')
    const entries = await rows('tenantry.audit_log')
    t.match(
      await entity('countries', { code: 'li' }),
      { status: 400, body: { code: 'TENANTRY_CONSTRAINT_VIOLATED' } },
      'a trigger drops the row'
    )
    t.equal(await rows('tenantry.audit_log'), entries)
    await run('drop trigger dropped on countries')
    for (
      const body of [{ table: 'notes' }, { table: 'notes', data: [] }, { table: 'notes', data: [{ title: 'x' }] }, { table: 1, data: {} }, {
        table: 'notes',
        data: {},
        sql: 'select 1'
      }, { data: {} }]
    ) {
      t.match(
        await post('/publish/entity', body, acme),
        { status: 400, body: { code: 'TENANTRY_VALIDATION_FAILED' } },
        JSON.stringify(body)
      )
    }
  })

  await t.test('a missing table is reported with SQL that creates it, after which the record is written', async (t) => {
    const data = {
      id: 'b'.repeat(40),
      title: 'it\'s "quoted"',
      views: 3_000_000_000,
      price: 1.5,
      live: true,
      at: '2026-01-31T12:00:00Z',
      by: '00000000-0000-4000-8000-000000000001',
      tags: ['a'],
      sizes: [1, 2],
      more: { a: 1 },
      empty: null
    }
    const missing = await entity('pages', data, acme)
    t.match(missing, { status: 404, body: { code: 'TENANTRY_NOT_FOUND', table: 'pages' } })
    const { sql = '' } = missing.body
    for (
      const line of [
        '"id" text not null',
        '"title" text',
        '"views" bigint',
        '"price" numeric',
        '"live" boolean',
        '"at" timestamp with time zone',
        '"by" uuid',
        '"tags" text[]',
        '"sizes" bigint[]',
        '"more" jsonb',
        '"empty" text',
        '"tenant_id" text not null',
        'primary key ("tenant_id", "id")'
      ]
    ) t.ok(sql.includes(line), line)
    t.notMatch(sql, /quoted|bbbb|2026-01-31/, 'it contains no value')
    await runScript(app, engine, sql)
    t.match(await entity('pages', data, acme), {
      status: 201,
      body: {
        data: { tenant_id: 'acme', id: data.id, views: 3_000_000_000, price: 1.5, tags: ['a'], sizes: [1, 2], more: { a: 1 }, empty: null }
      }
    }, 'at once')
    t.match(await run("select relrowsecurity, relforcerowsecurity from pg_class where oid = 'pages'::regclass"), [{
      relrowsecurity: true,
      relforcerowsecurity: true
    }])

    t.match((await entity('note', { title: 'x' }, acme)).body.message, /did you mean "notes"\?/)
    const platforms = await entity('banners', { text: 'Hello' })
    t.match(platforms.body.sql, /"id" uuid default gen_random_uuid\(\) not null[^]*primary key \("id"\)/)
    t.notMatch(platforms.body.sql, /tenant_id|policy/)
    await runScript(app, engine, platforms.body.sql)
    t.match(await entity('banners', { text: 'Hello' }), { status: 201, body: { data: { id: /^[\da-f-]{36}$/ } } })
  })

  await t.test('missing columns are reported with SQL that adds them', async (t) => {
    const before = await rows('notes')
    const lacking = await entity('notes', { titel: 'x', title: 'y', live: true, stars: 4.5 }, acme)
    t.match(lacking, {
      status: 400,
      body: {
        code: 'TENANTRY_VALIDATION_FAILED',
        table: 'notes',
        unknown: ['titel', 'live', 'stars'],
        missing: ['titel', 'live', 'stars'],
        details: [{ path: '/body/data/titel', message: /did you mean "title"/ }, { path: '/body/data/live' }, {}]
      }
    })
    t.equal(
      lacking.body.sql,
      'begin;\nalter table "public"."notes" add column "titel" text;\nalter table "public"."notes" add column "live" boolean;\nalter table "public"."notes" add column "stars" numeric;\ncommit;\n'
    )
    t.equal(await rows('notes'), before, 'nothing is written, not even without them')
    await runScript(app, engine, lacking.body.sql)
    t.match(await entity('notes', { titel: 'x', title: 'y', live: true, stars: 4.5 }, acme), {
      status: 201,
      body: { data: { titel: 'x', live: true, stars: 4.5 } }
    })
    const tenantless = await entity('countries', { code: 'ch', tenant_id: 'acme' }, acme)
    t.match(tenantless, {
      status: 400,
      body: { unknown: ['tenant_id'], details: [{ path: '/body/data/tenant_id', message: /do not belong to tenants/ }] }
    })
    t.notOk(tenantless.body.sql, 'no suggested column assigns all rows to one tenant')
  })

  await t.test("no name reaches SQL, another schema or the server's own tables", async (t) => {
    const names = [
      'notes"; drop table notes; --',
      'public.notes',
      'tenantry.secrets',
      '"notes"',
      'no tes',
      '1st',
      'é',
      'x\u0000y',
      'pg_class',
      '{{env.HOME}}',
      "x'y",
      'x--'
    ]
    for (const name of names) {
      const response = await entity(name, { a: 1 }, acme)
      t.match(response, { status: 400, body: { code: 'TENANTRY_VALIDATION_FAILED', details: [{ path: '/body/table' }] } }, JSON.stringify(name))
      t.notOk(response.body.sql)
    }
    t.match(await entity('a'.repeat(64), {}, acme), { status: 400 })
    t.ok(
      JSON.stringify((await entity('notes', { ['x'.repeat(100_000)]: 1, ['y'.repeat(100_000)]: 1 }, acme)).body).length < 2000,
      'reported names are bounded'
    )
    for (const name of ['x"; drop table notes; --', 'a b', 'ctid', 'xmin', 'a'.repeat(64), 'é', '', 'a.b', 'x\u0000']) {
      for (const table of ['notes', 'nowhere']) {
        const response = await entity(table, { [name]: 1 }, acme)
        t.match(response, { status: 400, body: { code: 'TENANTRY_VALIDATION_FAILED' } }, `${table} ${JSON.stringify(name)}`)
        t.match(response.body.details?.[0]?.path, /^\/body\/data/)
        t.notOk(response.body.sql)
      }
    }
    await run("create type mood as enum ('calm')")
    await run('create table visits (id int) partition by range (id)')
    await run('create table visits_1 partition of visits default')
    await run('create sequence numbers')
    for (const name of ['mood', 'visits_1', 'notes_pkey', 'numbers']) {
      const response = await entity(name, { a: 1 }, acme)
      t.match(response, { status: 400, body: { details: [{ path: '/body/table', message: /partition, index, sequence or type/ }] } }, name)
      t.notOk(response.body.sql, 'SQL that could not run')
    }
    // The names of the server's own tables are free in the application's schema, and refer to it.
    t.match((await entity('secrets', { a: 1 }, acme)).body.sql, /^begin;\ncreate table "public"\."secrets" /)
    t.match(await entity('constructor', { toString: 1 }), { status: 404 })
    const many = await entity('notes', Object.fromEntries(Array.from({ length: 101 }, (_, index) => [`c${index}`, 1])), acme)
    t.match(many, { status: 400, body: { message: /101 columns/ } })
    t.equal(Object(many.body['unknown']).length, 100)
    t.notOk(many.body.sql)
    t.match(await entity('notes', Object.fromEntries(Array.from({ length: 1601 }, (_, index) => [`c${index}`, 1])), acme), {
      status: 400,
      body: { details: [{ path: '/body/data' }] }
    })
    t.ok((await rows('notes')) as number > 0)
  })

  await t.test('a table whose tenant the database computes from the record cannot be published to', async (t) => {
    await run('create table desks (id integer primary key, floor text, tenant_id text generated always as (floor) stored)')
    t.match(await entity('desks', { id: 1, floor: 'globex' }, acme), {
      status: 400,
      body: { details: [{ path: '/body/table', message: /computes "tenant_id" of "desks"/ }] }
    })
    await run('drop table desks')
  })

  await t.test('a view cannot be published to', async (t) => {
    await run('create view titles as select title, tenant_id from notes')
    t.match(await entity('titles', { title: 'x' }, acme), { status: 400, body: { details: [{ path: '/body/table', message: /view/ }] } })
    t.match(await entity('titles', { other: 'x' }, acme), { status: 400, body: { details: [{ path: '/body/table', message: /view/ }] } })
    t.match((await post('/publish/init', { checkTables: ['titles'] })).body, { ready: true })
    await run('drop view titles')
  })

  await t.test('cached knowledge of a dropped table is not used', async (t) => {
    await run('drop table countries')
    t.match(await post('/publish/init', { checkTables: ['countries'] }), { body: { ready: false, missing: ['countries'] } })
    const gone = await entity('countries', { code: 'de' })
    t.match(gone, {
      status: 404,
      body: { message: /declared but not created yet/, sql: /create table "public"\."countries"[^]*insert into tenantry\.migrations/ }
    })
    t.match((await post('/publish/verify')).body, {
      ready: false,
      checks: [
        { name: 'database', ok: true },
        { name: 'migrations', ok: false, message: /_create_countries.*tenantry migrate/ },
        { name: 'tables', ok: false, message: /countries/ },
        { name: 'rowLevelSecurity', ok: true },
        { name: 'cache', ok: true }
      ]
    })
    t.match(await entity('countries', { code: 'de', area: 1 }), { status: 404 })
    await runScript(app, engine, gone.body.sql)
    t.match(await entity('countries', { code: 'de' }), { status: 201 })
    await run('alter table countries drop column name')
    t.match(await entity('countries', { code: 'fr', name: 'France', area: 1 }), {
      status: 400,
      body: { unknown: ['area'], missing: ['name', 'area'], sql: /_alter_countries[^]*add column "name" text[^]*add column "area" bigint/ }
    })
    t.match((await app.inject({ method: 'POST', url: '/migration/apply', headers: ops })).json(), { success: true })
    t.match(await entity('countries', { code: 'fr', name: 'France' }), { status: 201 })
    const { checks, ...verified } = (await post('/publish/verify', {})).body
    t.strictSame(verified, { ready: true })
    t.match(checks, [{
      message: 'The database responds.'
    }, { message: 'All migrations are applied.' }, { message: 'All declared tables exist.' }, {
      ok: true
    }, { ok: true }])
  })
}

test('publishing checks the table, and writes or reports missing parts', (t) => forEachEngine(t, served))
