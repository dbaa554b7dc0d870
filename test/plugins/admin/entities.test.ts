import type { FastifyInstance } from 'fastify'
import { CompiledQuery } from 'kysely'
import type { Test } from 'tap'
import { test } from 'tap'
import cache from '../../../plugins/cache/index.js'
import { testApp } from '../../helpers/app.js'
import { secretText } from '../../helpers/log-scan.js'
import { type DatabaseSection, forEachEngine, postgresDatabase } from '../../helpers/postgres.js'
import { type TestDocument, testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { type Ask, caller, refused } from '../../http/caller.js'

const hidden = secretText('what no template may give away', 'a secret of a tenant')
const ids = {
  bread: '00000000-0000-4000-8000-000000000001',
  rye: '00000000-0000-4000-8000-000000000002',
  other: '00000000-0000-4000-8000-000000000003',
  missing: '00000000-0000-4000-8000-00000000dead'
}

const document: TestDocument = {
  tables: {
    notes: {
      tenantScoped: true,
      softDelete: true,
      columns: {
        id: { type: 'uuid', primaryKey: true, default: 'uuid()' },
        title: { type: 'text', notNull: true },
        rating: { type: 'integer' },
        big: { type: 'bigint' },
        tags: { type: 'text[]' },
        data: { type: 'jsonb' },
        open: { type: 'boolean' }
      }
    },
    comments: {
      tenantScoped: true,
      columns: { id: { type: 'integer', primaryKey: true }, note_id: { type: 'uuid', references: 'notes.id' }, text: { type: 'text' } }
    },
    countries: { columns: { code: { type: 'text', primaryKey: true }, name: { type: 'text' } } },
    pairs: {
      tenantScoped: true,
      softDelete: true,
      columns: { left: { type: 'integer', primaryKey: true }, right: { type: 'integer', primaryKey: true } }
    }
  },
  plugins: {}
}

const runOn = (app: FastifyInstance) => (text: string, ...values: unknown[]) => app.db.executeQuery(CompiledQuery.raw(text, values))

/** A server with rows of two tenants. */
async function start (t: Test, engine: DatabaseSection): Promise<FastifyInstance> {
  const app = await testServer(t, document, { engine, tenants: [{ id: 'acme', plan: 'enterprise' }, { id: 'globex', plan: 'enterprise' }] })
  const run = runOn(app)
  await run(
    `insert into notes (id, tenant_id, title, rating, big, tags, data, open) values
    ($1, 'acme', 'Bread', 5, 9007199254740993, '{dark,"a, b"}', '{"a": 1}', true),
    ($2, 'acme', 'Rye 100%', null, null, '{}', null, false),
    ($3, 'globex', 'Bread', 1, null, null, '{"a": 2}', null)`,
    ids.bread,
    ids.rye,
    ids.other
  )
  await run("insert into countries (code, name) values ('at', 'Austria'), ('ch', 'Switzerland')")
  return app
}

const admins = (t: Test, app: FastifyInstance) => ({
  acme: caller(t, app, { token: signToken({ role: 'admin', tenant_id: 'acme', sub: 'anna' }) }),
  globex: caller(t, app, { token: signToken({ role: 'admin', tenant_id: 'globex', sub: 'gus' }) }),
  platform: caller(t, app, { token: signToken({ role: 'admin', sub: 'ops' }) })
})

const titles = async (ask: Ask, query: string) =>
  (await ask(`GET /admin/entities/notes?${query}`)).body.data?.map(({ title, tenant_id: tenant }) => `${String(tenant)}:${String(title)}`)
const filtered = (column: string, value: string) => `filter[${encodeURIComponent(column)}]=${encodeURIComponent(value)}`

async function served (t: Test, engine: DatabaseSection): Promise<void> {
  const app = await start(t, engine)
  const { acme, globex, platform } = admins(t, app)
  const run = runOn(app)

  await t.test("a tenant lists its own rows, and the platform's administrator lists all", async (t) => {
    const own = await acme('GET /admin/entities/notes?order=title.desc')
    t.match(own, {
      status: 200,
      body: {
        data: [{ id: ids.rye, title: 'Rye 100%', deleted: false }, { id: ids.bread, rating: 5, tags: ['dark', 'a, b'] }],
        pagination: { limit: 20, offset: 0, total: 2 }
      }
    })
    t.match(own.text, /"big":\s*9007199254740993\b/, "numbers keep the database's digits")
    t.same(await titles(globex, ''), ['globex:Bread'])
    t.same(await titles(platform, 'order=tenant_id.desc,title.asc'), ['globex:Bread', 'acme:Bread', 'acme:Rye 100%'])
    t.same((await platform('GET /admin/entities/notes', { tenant: 'globex' })).body.data?.map(({ id }) => id), [ids.other])
    t.match((await platform('GET /admin/entities/countries?select=code&order=code.desc')).body, { data: [{ code: 'ch' }, { code: 'at' }] })
    t.match((await platform('GET /admin/entities/countries/at', { tenant: 'acme' })).body, { name: 'Austria' })
  })

  await t.test('page sizes are clamped', async (t) => {
    t.match((await acme('GET /admin/entities/notes?limit=100000&order=title')).body, { pagination: { limit: 100, offset: 0, total: 2 } })
    t.match((await acme('GET /admin/entities/notes?limit=1&offset=1&order=title')).body, {
      data: [{ id: ids.rye }],
      pagination: { limit: 1, offset: 1, total: 2 }
    })
    for (
      const query of [
        'limit=0',
        'limit=-1',
        'limit=1.5',
        'limit=x',
        'limit=NaN',
        'offset=-1',
        'offset=0.5',
        'offset=9007199254740993',
        'limit=1;select 1',
        'limit=',
        'offset=1&offset=2'
      ]
    ) {
      t.match(
        await acme(`GET /admin/entities/notes?${query}`),
        { status: 400, body: { details: [{ path: /^\/query\/(limit|offset)/ }] } },
        query
      )
    }
  })

  await t.test('filters work as in queries', async (t) => {
    const cases: [column: string, value: string, expected: string[]][] = [
      ['title', 'eq.Bread', ['Bread']],
      ['title', 'neq.Bread', ['Rye 100%']],
      ['title', 'not.eq.Bread', ['Rye 100%']],
      ['rating', 'gt.4', ['Bread']],
      ['rating', 'gte.6', []],
      ['rating', 'lt.6', ['Bread']],
      ['rating', 'lte.5', ['Bread']],
      ['big', 'eq.9007199254740993', ['Bread']],
      ['title', 'like.Br%', ['Bread']],
      ['title', 'like.br%', []],
      ['title', 'ilike.br%', ['Bread']],
      ['title', 'like.%100\\%', ['Rye 100%']],
      ['rating', 'is.null', ['Rye 100%']],
      ['rating', 'not.is.null', ['Bread']],
      ['open', 'is.true', ['Bread']],
      ['open', 'is.false', ['Rye 100%']],
      ['open', 'eq.true', ['Bread']],
      ['title', 'in.(Bread,"Rye 100%")', ['Bread', 'Rye 100%']],
      ['title', 'in.("x,y","a\\"b")', []],
      ['title', 'in.()', []],
      ['rating', 'in.(5,6)', ['Bread']],
      ['title', 'not.in.(Bread)', ['Rye 100%']],
      ['tags', 'contains.{"a, b"}', ['Bread']],
      ['tags', 'overlaps.{dark,light}', ['Bread']],
      ['tags', 'eq.{}', ['Rye 100%']],
      ['data', 'contains.{"a":1}', ['Bread']],
      ['data', 'contains."{a"', []],
      ['data', 'eq.{"a":1}', ['Bread']],
      ['data', 'in.("{\\"a\\":1}",7)', ['Bread']],
      ['data', 'in.("\\"text\\"",7)', []],
      ['id', `eq.${ids.bread}`, ['Bread']],
      ['tenant_id', 'eq.globex', []],
      ['tenant_id', 'not.eq.acme', []],
      ['tenant_id', 'in.(acme,globex)', ['Bread', 'Rye 100%']],
      ['title', 'eq.', []]
    ]
    for (const [column, value, expected] of cases) {
      t.same(await titles(acme, `order=title&${filtered(column, value)}`), expected.map((title) => `acme:${title}`), `${column} ${value}`)
    }
    t.same(await titles(acme, `${filtered('title', 'like.B%')}&${filtered('title', 'like.R%')}`), [], 'several filters on one column must all match')
    t.same(await titles(platform, filtered('tenant_id', 'eq.globex')), ['globex:Bread'])
  })

  await t.test('selects work as in queries, also for embedded rows, and reveal nothing that is hidden from the tenant', async (t) => {
    await run(
      "insert into comments (id, tenant_id, note_id, text) values (1, 'acme', $1, 'good'), (2, 'globex', $2, 'bad')",
      ids.bread,
      ids.other
    )
    t.same((await acme('GET /admin/entities/notes?select=name:title,comments(text)&order=title&limit=1')).body.data, [{
      name: 'Bread',
      comments: [{ text: 'good' }]
    }])
    t.same((await acme(`GET /admin/entities/notes/${ids.bread}?select=title,comments(count)`)).body, {
      title: 'Bread',
      comments: [{ count: 1 }]
    })
    t.same((await platform('GET /admin/entities/notes?select=comments(text)&order=tenant_id.desc&limit=1')).body.data, [{
      comments: [{ text: 'bad' }]
    }])
    const message = async (select: string) => (await acme(`GET /admin/entities/notes?select=${select}`)).body.details?.[0]?.message
    t.equal(
      await message('countries(*)'),
      (await message('gountries(*)'))?.replace('gountries', 'countries'),
      'a hidden table looks like a missing one'
    )
    t.notMatch(await message('countriez(*)'), /countries/)
    for (const select of ['titel', 'comments', 'comments(titel)', 'id,', '(', '*;drop table notes', '"', 'a:title,a:id']) {
      t.match(await acme(`GET /admin/entities/notes?select=${encodeURIComponent(select)}`), {
        status: 400,
        body: { details: [{ path: '/query/select' }] }
      }, select)
    }
    t.match(await message('titel'), /did you mean "title"/)
  })

  await t.test('a single row can be read', async (t) => {
    t.match(await acme(`GET /admin/entities/notes/${ids.bread}`), { status: 200, body: { id: ids.bread, tenant_id: 'acme' } })
    t.match(await platform(`GET /admin/entities/notes/${ids.other}`), { status: 200, body: { tenant_id: 'globex' } })
    for (const [ask, id] of [[acme, ids.other], [globex, ids.bread], [acme, ids.missing], [platform, ids.missing]] as const) {
      refused(t, await ask(`GET /admin/entities/notes/${id}`), 404, 'NOT_FOUND')
    }
    refused(t, await platform(`GET /admin/entities/notes/${ids.bread}`, { tenant: 'globex' }), 404, 'NOT_FOUND')
    t.match(
      await acme('GET /admin/entities/notes/1'),
      { status: 400, body: { details: [{ path: '/params/id' }] } },
      'an id that no row can have'
    )
    t.match(await acme('GET /admin/entities/pairs/1'), {
      status: 400,
      body: { details: [{ path: '/params/id', message: /2 columns, left, right/ }] }
    })
  })

  await t.test('a row can be soft-deleted, restored and removed', async (t) => {
    const target = `/admin/entities/notes/${ids.rye}`
    for (const method of ['DELETE', 'POST']) {
      refused(t, await globex(`${method} ${target}${method === 'POST' ? '/restore' : ''}`), 404, 'NOT_FOUND')
    }
    refused(t, await globex(`DELETE ${target}?hard=true`), 404, 'NOT_FOUND')
    refused(t, await acme(`POST ${target}/restore`), 409, 'STATE_CONFLICT')
    t.same((await acme(`DELETE ${target}`)).body, { success: true, softDeleted: true })
    refused(t, await acme(`DELETE ${target}`), 404, 'NOT_FOUND')
    refused(t, await acme(`GET ${target}`), 404, 'NOT_FOUND')
    t.same(await titles(acme, ''), ['acme:Bread'])
    t.same(await titles(acme, 'includeDeleted=true&order=title'), ['acme:Bread', 'acme:Rye 100%'])
    t.match((await acme(`GET ${target}?includeDeleted=true`)).body, { deleted: true, deleted_at: /^\d{4}-/ })
    t.match(await acme(`POST ${target}/restore`, { body: {} }), {
      status: 200,
      body: { success: true, data: { id: ids.rye, title: 'Rye 100%', deleted: false, deleted_at: null } }
    })
    refused(t, await acme(`POST ${target}/restore`), 409, 'STATE_CONFLICT')
    refused(t, await acme(`POST /admin/entities/notes/${ids.missing}/restore`), 404, 'NOT_FOUND')
    t.same((await acme(`DELETE ${target}`)).body, { success: true, softDeleted: true })
    t.same((await acme(`DELETE ${target}?hard=true`)).body, { success: true }, 'a soft-deleted row is removed')
    refused(t, await acme(`DELETE ${target}?softDelete=false`), 404, 'NOT_FOUND')
    t.same(await titles(acme, 'includeDeleted=true'), ['acme:Bread'])
    for (const query of ['hard=true&softDelete=true', 'hard=false&softDelete=false']) {
      t.match(await acme(`DELETE ${target}?${query}`), { status: 400, body: { details: [{ path: '/query/softDelete' }] } })
    }
    for (const query of ['hard=yes', 'softDelete=1.5', 'force=true']) t.equal((await acme(`DELETE ${target}?${query}`)).status, 400, query)
  })

  await t.test('an impossible operation is rejected with the reason', async (t) => {
    const soft = await acme('DELETE /admin/entities/comments/1')
    refused(t, soft, 409, 'STATE_CONFLICT')
    t.match(soft.body, {
      message: /"softDelete": true.*tenantry migrate.*POST \/migration\/apply/,
      sql:
        'begin;\nalter table "public"."comments" add column "deleted" boolean default \'false\'::boolean not null;\nalter table "public"."comments" add column "deleted_at" timestamp with time zone;\ncommit;\n'
    })
    t.match(soft.body.message, /hard=true/)
    const restored = await acme('POST /admin/entities/comments/1/restore')
    refused(t, restored, 409, 'STATE_CONFLICT')
    t.notMatch(restored.body.message, /hard=true/, 'a failed restore does not suggest a deletion')
    t.match((await acme('GET /admin/entities/comment')).body.message, /did you mean "comments"/)
    t.match((await platform('GET /admin/entities/contries')).body.message, /did you mean "countries"/)
    t.equal(
      (await acme('GET /admin/entities/contries')).body.message,
      'There is no table with this name',
      'a hidden table is not named'
    )
    const target = `/admin/entities/notes/${ids.bread}?hard=true`
    t.match(await acme(`DELETE ${target}`), {
      status: 409,
      body: { code: 'TENANTRY_STATE_CONFLICT', table: 'comments', columns: ['note_id'], message: /"comments" refer to it by note_id/ }
    })
    t.same((await acme('DELETE /admin/entities/comments/1?hard=true')).body, { success: true })
    // Another tenant's row refers to it: the table is named, and nothing of the row.
    await run('alter table notes add constraint one_id unique (id)')
    await run('alter table comments drop column note_id, add column note_id uuid constraint held references notes (id) on delete restrict')
    await run('update comments set note_id = $1', ids.bread)
    await app.engine.refresh()
    const held = await acme(`DELETE ${target}`)
    t.match(held, { status: 409, body: { code: 'TENANTRY_STATE_CONFLICT', table: 'comments', columns: ['note_id'] } })
    t.notMatch(held.text, /globex|bad/)
    await run('update comments set note_id = null')
    await run('create table features (id int primary key, note_id uuid references notes (id))')
    await run('insert into features values (1, $1)', ids.bread)
    await app.engine.refresh()
    const unnamed = await acme(`DELETE ${target}`)
    refused(t, unnamed, 409, 'STATE_CONFLICT')
    t.notMatch(unnamed.text, /features|note_id/, 'a table that is hidden from the tenant')
    t.match(await platform(`DELETE ${target}`), { status: 409, body: { table: 'features', columns: ['note_id'] } })
    await run('drop table features')
    await run('create table marks (note_id uuid references notes (id), year int) partition by list (year)')
    await run('create table marks_1 partition of marks default')
    await run('insert into marks values ($1, 1)', ids.bread)
    t.match(
      await platform(`DELETE ${target}`),
      { status: 409, body: { code: 'TENANTRY_STATE_CONFLICT', message: /"marks/ } },
      'rows of a partition'
    )
    await run('drop table marks')
    t.equal((await acme(`GET /admin/entities/notes/${ids.bread}`)).status, 200, 'nothing was changed')
    await run('alter table comments drop column note_id')
    await run('alter table notes drop constraint one_id')

    await run(
      'create table drafts (id int primary key, tenant_id text, deleted_at timestamptz, deleted boolean generated always as (deleted_at is not null) stored)'
    )
    await run("insert into drafts values (1, 'acme')")
    await app.engine.refresh()
    t.same(
      (await acme('DELETE /admin/entities/drafts/1')).body,
      { success: true, softDeleted: true },
      'a column that the database maintains'
    )
    refused(t, await acme('GET /admin/entities/drafts/1'), 404, 'NOT_FOUND')
    t.match(await acme('POST /admin/entities/drafts/1/restore'), { status: 200, body: { data: { id: 1, deleted: false } } })

    await run("insert into notes (id, tenant_id, title, deleted, deleted_at) values ($1, 'acme', 'Bread', true, now())", ids.missing)
    await run('create unique index one_title on notes (tenant_id, title) where not deleted')
    refused(t, await acme(`POST /admin/entities/notes/${ids.missing}/restore`), 409, 'CONFLICT')
    await run('drop index one_title')
    await run('delete from notes where id = $1', ids.missing)
    await run('create view titles as select id, tenant_id, title from notes')
    await app.engine.refresh()
    t.match((await acme('GET /admin/entities/titles')).body.data, [{ title: 'Bread' }])
    for (
      const target of [
        'DELETE /admin/entities/titles/1',
        'DELETE /admin/entities/titles/1?hard=true',
        'POST /admin/entities/titles/1/restore'
      ]
    ) t.match(await acme(target), { status: 400, body: { details: [{ path: '/params/table', message: /is a view/ }] } }, target)
    t.match(await acme('GET /admin/entities/titles/1'), {
      status: 400,
      body: { details: [{ path: '/params/id', message: /no primary key/ }] }
    })
  })

  await t.test("the platform writes as the row's tenant", async (t) => {
    const target = `/admin/entities/notes/${ids.other}`
    t.same((await platform(`DELETE ${target}`)).body, { success: true, softDeleted: true })
    t.match((await platform(`POST ${target}/restore`)).body, { success: true, data: { tenant_id: 'globex' } })
    refused(t, await platform(`DELETE ${target}`, { tenant: 'acme' }), 404, 'NOT_FOUND')
    t.match((await globex('GET /audit?action=entity.delete')).body.data, [{
      tenantId: 'globex',
      userId: 'ops',
      target: `notes:${ids.other}`,
      address: null,
      details: { table: 'notes', hard: false }
    }])
    t.same((await platform('DELETE /admin/entities/countries/ch?hard=true')).body, { success: true })
    refused(t, await platform('DELETE /admin/entities/countries/ch?hard=true'), 404, 'NOT_FOUND')
    await app.tenants.update('globex', { status: 'suspended' })
    t.equal((await platform(`GET ${target}`)).status, 200)
    t.equal((await platform(`DELETE ${target}`)).status, 200, 'a row of a suspended tenant')
    t.equal((await platform(`POST ${target}/restore`, { tenant: 'globex' })).status, 200)
    refused(t, await globex(`GET ${target}`), 403, 'TENANT_SUSPENDED')
    await app.tenants.update('globex', { status: 'active' })

    // The same id, used by a row of each tenant.
    await run("insert into notes (id, tenant_id, title) values ($1, 'acme', 'The same')", ids.other)
    for (const method of ['GET', 'DELETE']) refused(t, await platform(`${method} ${target}`), 400, 'TENANT_REQUIRED')
    t.same((await platform(`DELETE ${target}?hard=true`, { tenant: 'acme' })).body, { success: true })
    t.same(await titles(platform, filtered('id', `eq.${ids.other}`)), ['globex:Bread'])
  })

  await t.test("every operation is in the log of the rows' tenant, without values", async (t) => {
    await acme(`GET /admin/entities/notes?includeDeleted=true&${filtered('title', 'eq.unheard-of')}`)
    await platform('GET /admin/entities/notes')
    await platform('GET /admin/entities/countries/at', { tenant: 'acme' })
    await platform(`GET /admin/entities/notes/${ids.other}`)
    t.match((await globex('GET /audit?action=entity.read')).body.data?.[0], {
      tenantId: 'globex',
      userId: 'ops',
      target: `notes:${ids.other}`,
      address: null
    }, 'reads of the platform too')
    const own = (await acme('GET /audit?action=entity.*&limit=100')).body.data ?? []
    t.match(own[0], {
      action: 'entity.list',
      tenantId: 'acme',
      userId: 'anna',
      target: 'notes',
      details: { filters: ['title.eq'], includeDeleted: true }
    })
    t.ok(own.every(({ tenantId }) => tenantId === 'acme'))
    t.ok(
      ['entity.list', 'entity.read', 'entity.delete', 'entity.restore'].every((action) => own.some((entry) => entry['action'] === action))
    )
    t.notMatch(JSON.stringify(own), /unheard-of|countries/)
    const all = (await platform('GET /audit?action=entity.*&limit=100')).body.data ?? []
    t.match(all.filter(({ tenantId }) => tenantId === null).slice(0, 2), [{ action: 'entity.read', target: 'countries:at' }, {
      action: 'entity.list',
      target: 'notes',
      userId: 'ops'
    }])
  })

  // On the other engine the same code is used.
  if (engine.provider === 'postgres') await t.test('no name, id, filter, order or select reaches other tables or becomes SQL', (t) => attack(t, app))

  await t.test('faults of a request are reported with their places', async (t) => {
    const checkFault = async (query: string, path: string, message: RegExp) => {
      const { status, body: { details } } = await acme(`GET /admin/entities/notes?${query}`)
      t.match({ status, detail: details?.[0] }, { status: 400, detail: { path, message } }, query.slice(0, 80))
    }
    await checkFault('filter[title]=Bread', '/query/filter[title]', /such as "eq\.5"/)
    await checkFault('filter[title]=equals.Bread', '/query/filter[title]', /operators are eq, neq/)
    await checkFault('filter[tags]=array-contains.dark', '/query/filter[tags]', /operators are [a-z, ]+, contains, overlaps, fts$/)
    await checkFault('filter[titel]=eq.Bread', '/query/filter[titel]', /did you mean "title"/)
    await checkFault('filter[constructor]=eq.1', '/query/filter[constructor]', /no column/)
    await checkFault('filter[__proto__]=eq.1', '/query/filter[__proto__]', /no column/)
    await checkFault('filter[]=eq.1', '/query/filter[]', /no column/)
    await checkFault('filter=eq.1', '/query/filter', /`filter\[column\]=operator.value`/)
    await checkFault('title=eq.Bread', '/query/title', /`filter\[column\]=operator.value`/)
    await checkFault('ordr=title.desc', '/query/ordr', /did you mean "order"/)
    await checkFault('filter[rating]=eq.abc', '/query/filter[rating]', /an integer/)
    await checkFault('filter[rating]=eq.1.5', '/query/filter[rating]', /an integer/)
    await checkFault('filter[rating]=eq.99999999999', '/query/filter[rating]', /an integer/)
    await checkFault('filter[title]=is.true', '/query/filter[title]', /compared with null/)
    await checkFault('filter[title]=is.sql', '/query/filter[title]', /"is\.null"/)
    await checkFault('filter[title]=in.a', '/query/filter[title]', /must be a list/)
    await checkFault('filter[data]=in.(a)', '/query/filter[data]', /JSON/)
    await checkFault('filter[title]=contains.a', '/query/filter[title]', /`contains` requires/)
    await checkFault('filter[tags]=contains.a', '/query/filter[tags]', /must be a list/)
    await checkFault('filter[data]=contains.a', '/query/filter[data]', /JSON/)
    await checkFault(`filter[title]=eq.${'x'.repeat(1000)}`, '/query/filter[title]', /at most 1000/)
    await checkFault(`filter[rating]=in.(${Array.from({ length: 101 }, (_, n) => n).join(',')})`, '/query/filter[rating]', /at most 100/)
    await checkFault(Array.from({ length: 21 }, () => 'filter[title]=eq.a').join('&'), '/query/filter', /at most 20/)
    await checkFault(`filter[${'x'.repeat(5000)}]=eq.1`, `/query/filter[${'x'.repeat(100)}…]`, /no column/)
    await checkFault('order=titel', '/query/order', /did you mean "title"/)
    await checkFault('order=like.desc', '/query/order', /no column "like"/)
    await checkFault('order=id,id,id,id,id,title', '/query/order', /at most 5/)
    await checkFault('order=', '/query/order', /at least 1/)
    await checkFault(`select=${'x'.repeat(1001)}`, '/query/select', /at most 1000/)
    await checkFault('includeDeleted=maybe', '/query/includeDeleted', /true or false/)
    await checkFault('limits=1', '/query/limits', /did you mean "limit"/)
  })

  await t.test('other callers are rejected', async (t) => {
    const callers = {
      stranger: [caller(t, app), 401],
      user: [caller(t, app, { token: signToken({ tenant_id: 'acme' }) }), 403],
      reader: [caller(t, app, { token: signToken({ tenant_id: 'acme', permissions: ['notes:read'] }) }), 403],
      'the administrator of another tenant by header': [
        caller(t, app, { token: signToken({ role: 'admin', tenant_id: 'globex' }), tenant: 'acme' }),
        403
      ]
    } as const
    for (const [name, [ask, status]] of Object.entries(callers)) {
      for (
        const target of [
          'GET /admin/entities/notes?bad=1',
          `GET /admin/entities/notes/${ids.bread}`,
          `DELETE /admin/entities/notes/${ids.bread}?hard=2`,
          `POST /admin/entities/notes/${ids.bread}/restore`
        ]
      ) {
        t.equal((await ask(target)).status, status, `${name}: ${target}`)
      }
    }
    const reader = caller(t, app, { token: signToken({ tenant_id: 'acme', permissions: ['entities:read'] }) })
    t.same(await titles(reader, ''), ['acme:Bread'])
    refused(t, await reader(`DELETE /admin/entities/notes/${ids.bread}`), 403, 'FORBIDDEN')
    const key = String((await acme('POST /tenant/api-keys', { body: { name: 'reads', scopes: ['entities:read'] } })).body['key'])
    const holder = caller(t, app, { headers: { 'x-api-key': key } })
    t.same(await titles(holder, ''), ['acme:Bread'], 'a key')
    for (
      const [target, status, tenant] of [[`DELETE /admin/entities/notes/${ids.bread}`, 403, 'acme'], [
        'GET /admin/entities/countries',
        404,
        'acme'
      ], ['GET /admin/entities/notes', 403, 'globex']] as const
    ) {
      t.equal((await holder(target, { tenant })).status, status, `a key: ${target}`)
    }
    refused(
      t,
      await caller(t, app, { token: signToken({ permissions: ['entities:read'] }) })('GET /admin/entities/notes'),
      400,
      'TENANT_REQUIRED',
      'a caller without a tenant who is not an administrator'
    )
  })
}

/** Invalid values in place of a table, an id, a column, an operator, a value, an order or a select. */
async function attack (t: Test, app: FastifyInstance): Promise<void> {
  const { acme, platform } = admins(t, app)
  const attacks = [
    'notes; drop table notes',
    'notes"',
    "notes' or true--",
    'tenantry.secrets',
    'secrets',
    'tenants',
    'audit_log',
    'documents',
    'pg_class',
    'pg_catalog.pg_class',
    'information_schema.tables',
    'public.notes',
    '__proto__',
    'constructor',
    '{{tenant.id}}',
    'NOTES'
  ]
  for (const table of attacks) {
    const at = `/admin/entities/${encodeURIComponent(table)}`
    for (const ask of [acme, platform]) {
      for (const target of [`GET ${at}`, `GET ${at}/1`, `DELETE ${at}/1`, `DELETE ${at}/1?hard=true`, `POST ${at}/1/restore`]) {
        refused(t, await ask(target), 404, 'NOT_FOUND', `${target}`)
      }
    }
  }
  const [there, not] = [await acme('GET /admin/entities/countries?x=1'), await acme('GET /admin/entities/nowhere?x=1')]
  t.same([there.status, not.status], [400, 400], 'an invalid request is rejected before the table is looked up')
  for (
    const target of [
      'GET /admin/entities/countries',
      'GET /admin/entities/countries/at',
      'DELETE /admin/entities/countries/at?hard=true',
      'POST /admin/entities/countries/at/restore'
    ]
  ) {
    const { requestId: _id, ...body } = (await acme(target)).body
    const { requestId: _other, ...absent } = (await acme(target.replace('countries', 'nowhere'))).body
    t.same(body, absent, 'a platform table looks like a missing one')
  }

  await app.secrets.put('acme', { key: 'X', value: hidden }, { userId: null, address: null })
  const sql = [
    "' or true--",
    '1; drop table notes',
    '") or true--',
    '$1',
    '\\',
    "\\'",
    '{{secret:X}}',
    '{{query.f1}}',
    '{{env.PATH}}',
    '{{params.id}}',
    '{{tenant.config.x}}',
    '$' + '{x}',
    '%',
    '--',
    '/*'
  ]
  const before = await titles(platform, 'includeDeleted=true&order=id')
  for (const text of sql) {
    for (const operator of ['eq', 'in', 'not.like']) {
      // A pattern cannot end with its escape character.
      if (operator === 'not.like' && text === '\\') continue
      const value = operator === 'in' ? `in.("${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}")` : `${operator}.${text}`
      const { status, text: response } = await acme(`GET /admin/entities/notes?${filtered('title', value)}`)
      t.equal(status, 200, value)
      t.notMatch(response, hidden)
      t.notMatch(response, /globex/)
    }
    for (const column of ['rating', 'id', 'open', 'big']) {
      t.match(await acme(`GET /admin/entities/notes?${filtered(column, `eq.${text}`)}`), {
        status: 400,
        body: { details: [{ path: `/query/filter[${column}]` }] }
      }, `${column} ${text}`)
    }
    for (
      const [name, query] of [
        ['filter', filtered(text, 'eq.1')],
        ['filter', filtered('title', `${text}.1`)],
        ['filter', filtered('title', text)],
        ['order', `order=${encodeURIComponent(text)}`],
        ['order', `order=title.${encodeURIComponent(text)}`],
        ['select', `select=${encodeURIComponent(text)}`]
      ] as const
    ) {
      const { status, body } = await acme(`GET /admin/entities/notes?${query}`)
      t.match({ status, path: body.details?.[0]?.path }, { status: 400, path: new RegExp(`^/query/${name}`) }, query)
    }
    for (
      const target of [
        `GET /admin/entities/notes/${encodeURIComponent(text)}`,
        `DELETE /admin/entities/notes/${encodeURIComponent(text)}?hard=true`,
        `POST /admin/entities/notes/${encodeURIComponent(text)}/restore`
      ]
    ) t.equal((await acme(target)).status, 400, target)
  }
  t.same(await titles(acme, filtered('title', 'eq.{{params.id}}')), [])
  t.same(await titles(platform, 'includeDeleted=true&order=id'), before, 'nothing was changed')
}

test('administrators can manage the rows of tables', (t) => forEachEngine(t, served))

test('the endpoints work in an app with the cache registered after them', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const tables = { notes: { tenantScoped: true, softDelete: true, columns: { id: { type: 'integer', primaryKey: true } } } } as const
  const { app, ask } = await testApp(t, {
    engine: { provider: 'postgres', postgres: { connectionString } },
    plugins: { database: { tables }, admin: {} },
    tenants: ['acme'],
    claims: { role: 'admin', tenant_id: 'acme' },
    routes: (app) => app.register(cache)
  })
  await runOn(app)("insert into notes (id, tenant_id) values (1, 'acme')")
  const reads = [{ table: 'notes', scoped: true }]
  const missed = await app.cache.get('acme', 'k', reads)
  if (typeof missed === 'string') throw new Error('nothing is stored yet')
  await app.cache.set('acme', 'k', 'kept', 60_000, missed.stamp)
  t.equal(await app.cache.get('acme', 'k', reads), 'kept')
  t.same((await ask('DELETE /admin/entities/notes/1')).body, { success: true, softDeleted: true })
  t.not(await app.cache.get('acme', 'k', reads), 'kept')
  t.match((await ask('GET /admin/entities/notes?includeDeleted=true')).body, { data: [{ id: 1, deleted: true }] })
})
