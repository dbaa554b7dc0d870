/**
 * Cached responses whose computation overlaps other events: writes, requests for the same response, disconnects. The view `held` shows
 * notes and waits for a lock of the test after its statement has begun.
 */
import { get } from 'node:http'
import pg from 'pg'
import { test } from 'tap'
import { advisoryWaits } from '../../helpers/locks.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import type { TestDocument } from '../../helpers/server.js'
import { listen, testServer } from '../../helpers/server.js'
import { until } from '../../helpers/until.js'
import { type Ask, caller } from '../../http/caller.js'

const sql = `
create table people (tenant_id text not null, id integer primary key, name text);
create table notes (tenant_id text not null, id integer primary key, title text not null, person_id integer references people (id) on delete cascade);
create table tags (tenant_id text not null, id integer primary key, note_id integer references notes (id) on delete set null on update cascade);
create sequence runs;
create function hold () returns bigint language plpgsql volatile as $$
begin
  perform nextval('runs');
  perform pg_advisory_xact_lock_shared(7);
  if exists (select from notes where title = 'wrong') then raise exception 'no' using errcode = '22000'; end if;
  return 1;
end $$;
create view held as select n.tenant_id, n.id, n.title from notes n cross join (select hold() as h) one where one.h is not null;
create view all_titles as select title from notes;
create view over_view as select title from all_titles;
`
const cache = { enabled: true, ttl: 600 }
type Route = NonNullable<TestDocument['routes']>[number]

const list = (table: string): Route => ({
  method: 'get',
  path: `/${table}`,
  cache,
  queries: [{ table, operation: 'select', order: { column: table === 'tags' ? 'id' : 'title' } }]
})

const routes: Route[] = [
  list('notes'),
  list('tags'),
  list('held'),
  list('all_titles'),
  list('over_view'),
  { method: 'post', path: '/notes', queries: [{ table: 'notes', operation: 'insert' }] },
  { method: 'post', path: '/tags', queries: [{ table: 'tags', operation: 'insert' }] },
  { method: 'post', path: '/people', queries: [{ table: 'people', operation: 'insert' }] },
  { method: 'patch', path: '/people/:id', queries: [{ table: 'people', operation: 'update', id: '{{params.id}}' }] },
  { method: 'patch', path: '/notes/:id', queries: [{ table: 'notes', operation: 'update', id: '{{params.id}}' }] },
  { method: 'delete', path: '/people/:id', queries: [{ table: 'people', operation: 'delete', id: '{{params.id}}' }] }
]

test('cached responses stay correct during overlapping events', async (t) => {
  const { connectionString, query } = await postgresDatabase(t, { sql })
  const app = await testServer(t, { routes, cache: { enabled: true, provider: 'memory' } }, {
    // Enough for three slow reads at a time: a busy machine may take 20 ms for one.
    engine: { provider: 'postgres', postgres: { connectionString, pool: { max: 24 } } },
    tenants: ['acme', 'globex']
  })
  const acme = caller(t, app, { tenant: 'acme' })
  const globex = caller(t, app, { tenant: 'globex' })
  const holder = new pg.Client({ connectionString })
  await holder.connect()
  t.teardown(() => holder.end())
  const hold = () => holder.query('select pg_advisory_lock(7)')
  const release = () => holder.query('select pg_advisory_unlock(7)')

  const waiting = (count: number) =>
    until(
      `${count} wait`,
      async () => Number((await query(`${advisoryWaits} and objid = 7`))[0]?.['n']) === count
    )
  const runs = async () => Number((await query('select last_value from runs'))[0]?.['last_value'])
  const titles = async (ask: Ask, path: string) => {
    const { headers, body } = await ask(`GET ${path}`)
    return [headers['x-cache'], body.data?.map(({ title }) => title)]
  }
  await acme('POST /people', { body: { id: 1, name: 'Ann' } })
  await acme('POST /notes', { body: { id: 1, title: 'first', person_id: 1 } })
  await acme('POST /tags', { body: { id: 1, note_id: 1 } })

  await t.test("a view depends on the tables that it reads, and a view without tenants on all tenants' rows", async (t) => {
    for (const path of ['/held', '/all_titles', '/over_view']) {
      await titles(globex, path)
      t.match(await titles(globex, path), ['HIT'], path)
    }
    await acme('POST /notes', { body: { id: 2, title: 'second', person_id: 1 } })
    for (const path of ['/all_titles', '/over_view']) t.same(await titles(globex, path), ['MISS', ['first', 'second']], path)
    t.match(await titles(globex, '/held'), ['HIT'], "its rows are the tenant's")
  })

  await t.test('rows that the database deletes or changes after a write count as written', async (t) => {
    for (const path of ['/notes', '/tags', '/held']) await titles(acme, path)
    await acme('PATCH /people/1', { body: { name: 'Anna' } })
    for (const path of ['/notes', '/tags']) t.match(await titles(acme, path), ['HIT'], path)
    await acme('PATCH /notes/1', { body: { id: 3 } })
    t.match(await acme('GET /tags'), { headers: { 'x-cache': 'MISS' }, body: { data: [{ note_id: 3 }] } }, 'by `on update cascade`')
    for (const path of ['/notes', '/tags', '/held']) await titles(acme, path)
    t.equal((await acme('DELETE /people/1')).status, 200)
    for (const path of ['/notes', '/held']) t.same(await titles(acme, path), ['MISS', []], path)
    t.match(await acme('GET /tags'), { headers: { 'x-cache': 'MISS' }, body: { data: [{ note_id: null }] } })
  })

  await t.test('a response begun before a write only goes to requests from before the write', async (t) => {
    await acme('POST /notes', { body: { id: 10, title: 'old' } })
    await hold()
    const [before, joined] = [titles(acme, '/held'), titles(acme, '/held')]
    await waiting(1)
    await acme('POST /notes', { body: { id: 11, title: 'written meanwhile' } })
    const after = titles(acme, '/held')
    await waiting(2)
    await release()
    t.same(await Promise.all([before, joined]), [['MISS', ['old']], ['MISS', ['old']]])
    t.same(await after, ['MISS', ['old', 'written meanwhile']])
    t.same(await titles(acme, '/held'), ['HIT', ['old', 'written meanwhile']])
  })

  await t.test('concurrent requests for the same response compute it once, separately for each tenant', async (t) => {
    await acme('POST /notes', { body: { id: 12, title: 'third' } })
    await globex('POST /notes', { body: { id: 13, title: 'of globex' } })
    const before = await runs()
    await hold()
    const asked = [...Array.from({ length: 20 }, () => titles(acme, '/held')), ...Array.from({ length: 20 }, () => titles(globex, '/held'))]
    await waiting(2)
    await release()
    const responses = await Promise.all(asked)
    t.equal(await runs() - before, 2)
    for (const response of responses.slice(0, 20)) t.same(response, ['MISS', ['old', 'third', 'written meanwhile']])
    for (const response of responses.slice(20)) t.same(response, ['MISS', ['of globex']])
  })

  await t.test('a failure goes to all waiting requests, and the next request computes again', async (t) => {
    await acme('POST /notes', { body: { id: 14, title: 'wrong' } })
    const before = await runs()
    await hold()
    const asked = Array.from({ length: 5 }, () => acme('GET /held'))
    await waiting(1)
    await release()
    const responses = await Promise.all(asked)
    t.same(responses.map(({ status }) => status), [400, 400, 400, 400, 400])
    t.equal(new Set(responses.map(({ body }) => body['requestId'])).size, 5, 'each with its own id')
    await acme('PATCH /notes/14', { body: { title: 'right' } })
    t.match(await titles(acme, '/held'), ['MISS', ['old', 'right', 'third', 'written meanwhile']])
    t.ok(await runs() - before >= 2)
  })

  await t.test('a write with an unknown outcome counts as a write', async (t) => {
    await titles(acme, '/notes')
    t.match(await titles(acme, '/notes'), ['HIT'])
    await holder.query('begin; lock table notes in share row exclusive mode')
    const lost = acme('POST /notes', { body: { id: 20, title: 'lost' } })
    const end = "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    await until('it is cut off', async () => (await query(end)).length > 0)
    t.equal((await lost).status, 503)
    t.match(await titles(acme, '/notes'), ['MISS'])
    await holder.query('rollback')
  })

  await t.test('waiting requests get the response even if the first caller disconnects', async (t) => {
    const origin = await listen(app)
    await acme('POST /notes', { body: { id: 15, title: 'last' } })
    const before = await runs()
    await hold()
    const leader = get(`${origin}/held`, { headers: { 'x-tenant-id': 'acme' } })
    const gone = new Promise((resolve) => leader.on('error', () => {}).on('close', resolve))
    await waiting(1)
    const follower = titles(acme, '/held')
    leader.destroy()
    await gone
    await release()
    t.match(await follower, ['MISS', ['last']])
    t.equal(await runs() - before, 1)
    t.match(await titles(acme, '/held'), ['HIT', ['last']])
  })
})
