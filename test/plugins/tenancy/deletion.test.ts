/** A deleted tenant leaves no rows, and other tenants keep theirs. */
import type { FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import pg from 'pg'
import { type Test, test } from 'tap'
import type { ConfigInput } from '../../../lib/configuration/index.js'
import { noActor } from '../../../lib/database/audit.js'
import { lockTenant } from '../../../lib/database/tenant-lock.js'
import { tenantIdOf } from '../../../lib/identity/tenant-ref.js'
import { createErasure } from '../../../plugins/tenancy/erasure.js'
import { createTenantStore, forgetDeleted } from '../../../plugins/tenancy/store.js'
import { testApp } from '../../helpers/app.js'
import { waitingDeletions } from '../../helpers/locks.js'
import { type DatabaseSection, forEachEngine, postgresDatabase, postgresSection, type TestDatabase } from '../../helpers/postgres.js'
import { testServer, testServers } from '../../helpers/server.js'
import { bearer, signToken, testSecret } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { caller, refused } from '../../http/caller.js'

const id = { type: 'uuid', primaryKey: true, default: 'uuid()' } as const
const tables = {
  authors: { tenantScoped: true, columns: { id, name: { type: 'text', notNull: true } } },
  articles: {
    tenantScoped: true,
    softDelete: true,
    columns: { id, title: { type: 'text', notNull: true }, author_id: { type: 'uuid', references: 'authors.id', notNull: true } }
  },
  reviews: {
    tenantScoped: true,
    columns: {
      id,
      article_id: { type: 'uuid', references: 'articles.id', notNull: true },
      author_id: { type: 'uuid', references: 'authors.id' }
    }
  },
  topics: { columns: { id, name: { type: 'text' } } }
} as const satisfies ConfigInput['tables']

/** Tables that no document declares: trees, circular references, partitions, another type, a quoted name, a view. */
const found = `
create table "Odd ""Name" (tenant_id text not null, n integer);
create table by_uuid (tenant_id uuid not null, n integer);
create table tree (tenant_id text not null, id integer, parent_id integer, primary key (tenant_id, id), foreign key (tenant_id, parent_id) references tree (tenant_id, id));
create table circle (tenant_id text not null, id integer primary key, next_id integer);
create table hub (tenant_id text not null, id integer primary key, spoke_id integer);
create table spoke (tenant_id text not null, id integer primary key, hub_id integer references hub (id));
alter table hub add foreign key (spoke_id) references spoke (id);
alter table circle add foreign key (next_id) references circle (id);
create table parts (tenant_id text not null, n integer) partition by range (n);
create table parts_low partition of parts for values from (0) to (1000);
create table parts_high partition of parts for values from (1000) to (9000);
create table cascading (tenant_id text not null, author_id uuid, foreign key (tenant_id, author_id) references authors (tenant_id, id) on delete cascade);
create view seen as select tenant_id, name from authors;
`

const uuids = { a: '00000000-0000-4000-8000-00000000000a', b: '00000000-0000-4000-8000-00000000000b' }

async function run (app: FastifyInstance, text: string): Promise<Record<string, unknown>[]> {
  const { rows } = await sql.raw<Record<string, unknown>>(text).execute(app.db)
  return rows
}

async function runAll (app: FastifyInstance, text: string): Promise<void> {
  for (const statement of text.split(/;\s*\n/)) if (statement.trim() !== '') await run(app, statement)
}

/** Rows in every table with a tenant_id, 2500 of them in one table. No sweep of old rows removes any of them. */
async function fill (app: FastifyInstance, tenant: string, offset: number): Promise<void> {
  const own = `'${tenant}'`
  await runAll(
    app,
    `
with author as (insert into authors (tenant_id, name) values (${own}, 'x'), (${own}, 'y') returning id),
  article as (insert into articles (tenant_id, title, author_id, deleted) select ${own}, 'x', id, true from author returning id)
  insert into reviews (tenant_id, article_id) select ${own}, id from article;
insert into cascading (tenant_id, author_id) select ${own}, id from authors where tenant_id = ${own};
insert into "Odd ""Name" select ${own}, n from generate_series(1, 2500) n;
insert into tree select ${own}, n, nullif(n / 2, 0) from generate_series(1, 1100) n;
insert into circle select ${own}, ${offset} + n, null from generate_series(1, 5) n;
update circle set next_id = ${offset} + 1 + (id - ${offset}) % 5 where tenant_id = ${own};
insert into hub values (${own}, ${offset}, null);
insert into spoke values (${own}, ${offset}, ${offset});
update hub set spoke_id = ${offset} where tenant_id = ${own};
insert into parts select ${own}, n from generate_series(1, 2500) n;
insert into tenantry.documents (tenant_id, collection, id, data) select ${own}, 'docs', n::text, '{}' from generate_series(1, 1100) n;
insert into tenantry.tenant_configs (tenant_id, version, document, created_by) values (${own}, 1, '{"settings": {"a": 1}}', 'x');
insert into tenantry.secrets (tenant_id, key, version, value) values (${own}, 'K', 1, '\\x00');
insert into tenantry.secret_earlier_values values (${own}, 'K', 0, '\\x00', now() + interval '1 day');
insert into tenantry.audit_log (tenant_id, target, action) values (${own}, 'K', 'secret.create');
insert into tenantry.revocations values (${own}, 'u', '', now(), now() + interval '1 day');
insert into tenantry_queue.job (name, data) values ('jobs', '{"tenant": "${tenant}", "task": "t"}');
insert into tenantry.workflow_runs (tenant_id, id, definition, scope) values (${own}, '00000000-0000-0000-0000-000000000001', '{}', '{}');
insert into tenantry.workflow_steps (tenant_id, run_id, step, status) values (${own}, '00000000-0000-0000-0000-000000000001', 's', 'running');
insert into tenantry.workflow_schedules (tenant_id, workflow, schedule, next_at) values (${own}, 'w', '0 0 1 1 * UTC', '2100-01-01');
insert into tenantry.files (tenant_id, id, status, bucket, name, content_type, size, counted, metadata, created_by, created_at) values (${own}, gen_random_uuid(), 'pending', 'private', 'f', 'text/plain', 1, 1, '{}', 'u', now());
insert into tenantry.file_transforms select tenant_id, id, 'n', 'image/png', 1, repeat('0', 64), now() from tenantry.files where tenant_id = ${own};
insert into tenantry.realtime_changes (tenant_id, position, first, bytes, tables, changes) values (${own}, 1, 1, 1, '{notes}', 'x');
insert into tenantry.realtime_outbox (tenant_id, table_name, kind, keys, record) values (${own}, 'notes', 'I', '{id}', '{}');
insert into tenantry.realtime_recorded values (${own}, 'notes', 1, now());
insert into tenantry.realtime_heads (tenant_id, position, stamp) values (${own}, 1, 1);
insert into tenantry.realtime_members (tenant_id, room, id, instance_id) values (${own}, 'r', gen_random_uuid(), gen_random_uuid());
insert into tenantry.realtime_messages (tenant_id, instance_id, number, messages) values (${own}, gen_random_uuid(), 1, '[]');
insert into tenantry.file_parts select tenant_id, id, gen_random_uuid(), 0, 1 from tenantry.files where tenant_id = ${own};
insert into tenantry.agent_documents values (${own}, 'd', gen_random_uuid(), 'text/plain', '{}', 1, 'm', 8, 'pgvector', now());
insert into tenantry.agent_chunks (tenant_id, document_id, position, content) values (${own}, 'd', 0, 'text');
insert into tenantry.conversations values (${own}, '00000000-0000-4000-8000-000000000001', 'u', false, 't', 1, 1, 1, now(), now());
insert into tenantry.conversation_messages values (${own}, '00000000-0000-4000-8000-000000000001', 1, 'user', 'm', null, 1, now());
insert into tenantry.agent_stale_vectors values (${own}, 'd', gen_random_uuid(), now());
insert into tenantry.agent_batches values (${own}, '00000000-0000-0000-0000-000000000001', 'queued', 1, '{}', now(), null);
insert into tenantry.agent_batch_documents values (${own}, '00000000-0000-0000-0000-000000000001', 0, '{}', 'waiting', null);
insert into tenantry.attempts values (${own}, 'password', 'x', array[now()], now() + interval '1 day');
insert into tenantry.users (tenant_id, id, email, password_hash, role) values (${own}, gen_random_uuid(), 'a@example.com', '$argon2id$', 'user');
insert into tenantry.refresh_tokens select tenant_id, gen_random_uuid(), id, '\\x00', '\\x00', '{}', now() + interval '1 day' from tenantry.users where tenant_id = ${own};
insert into tenantry.user_links (tenant_id, kind, email, user_id, expires_at) values (${own}, 'reset', 'a@example.com', gen_random_uuid(), now() + interval '1 day');
insert into tenantry.idempotency_keys values (${own}, '\\x00', gen_random_uuid(), 'running', false, false, '\\x00', null, null, now(), now() + interval '1 day');
insert into tenantry.user_mfa (tenant_id, user_id) values (${own}, 'u');
insert into tenantry.api_keys (tenant_id, name, hash, scopes, created_by) values (${own}, 'k', decode(md5(${own}), 'hex'), '{}', 'x');
insert into tenantry.tenant_rbac values (${own}, true, null);
insert into tenantry.tenant_roles (tenant_id, name, permissions) values (${own}, 'r', '{}');
insert into tenantry.resource_limits (tenant_id, rules, counters) values (${own}, '[]', 1);
insert into tenantry.resource_usage (tenant_id, user_id, resource, metric, ends_at) values (${own}, 'u', 'r', 'm', 'infinity');
insert into tenantry.request_stats values (${own}, now(), '', 'GET', '/r', 200, 1, '{1}', '{1}');
insert into tenantry.usage_requests values (${own}, current_date::text, 1, 1);
insert into tenantry.usage_counters (tenant_id, counter, period, amount) values (${own}, 'storage_bytes', 'total', 1);
insert into tenantry.usage_instances (id, last_batch) values ('00000000-0000-0000-0000-000000000001', 0) on conflict do nothing;
insert into tenantry.usage_gauges (instance_id, tenant_id, gauge, value, written) values ('00000000-0000-0000-0000-000000000001', ${own}, 'rooms', 1, 1);
insert into tenantry.usage_reservations (id, instance_id, tenant_id, counter, period, amount) values (gen_random_uuid(), '00000000-0000-0000-0000-000000000001', ${own}, 'storage_bytes', 'total', 1);
insert into tenantry.billing_tenants (tenant_id, plan) values (${own}, 'pro');
insert into tenantry.billing_subscriptions (tenant_id, provider, id) values (${own}, 'payprov', 's');
insert into tenantry.billing_events (tenant_id, provider, id, received_at) values (${own}, 'payprov', ${own}, now());
insert into tenantry.webhook_events (tenant_id, type, subject, data, at, fanned_out) select ${own}, 'entity.created', 'notes:' || n, '{}', now(), true from generate_series(1, 1100) n;
insert into tenantry.webhook_deliveries (tenant_id, event, type, subject, endpoint, url, give_up_at, created_at) select tenant_id, place, type, subject, 'w', 'https://example.com', now(), now() from tenantry.webhook_events where tenant_id = ${own};
insert into tenantry.webhook_secrets values (${own}, '\\x00', now());
insert into tenantry.webhook_receipts values (${own}, '/hook', 'i', gen_random_uuid(), null, now());
insert into tenantry.usage_notices values (${own}, 'llm_tokens', '2026-01', now());
insert into tenantry.oauth_tokens (tenant_id, key, renew_at) values (${own}, 'crm_access_token', now());
`
  )
}

/** Every table with a tenant_id, and its number of rows with the id. */
async function rowsOf (app: FastifyInstance, ...ids: string[]): Promise<Record<string, number>> {
  const all = await run(
    app,
    `select format('%I.%I', c.table_schema, c.table_name) as name from information_schema.columns c join information_schema.tables t using (table_schema, table_name)
    where c.column_name = 'tenant_id' and t.table_type = 'BASE TABLE' and c.table_schema in ('public', 'tenantry', 'tenantry_queue') order by 1`
  )
  const counts: Record<string, number> = {}
  for (const { name } of all) {
    const [row] = await run(
      app,
      `select count(*)::int as count from ${String(name)} where tenant_id::text in (${ids.map((one) => `'${one}'`).join(', ')})`
    )
    counts[String(name)] = Number(row?.['count'])
  }
  return counts
}

/** Locks the rows until the returned function is called, or the test ends. */
async function holdRows (t: Test, { connectionString }: TestDatabase, text: string): Promise<() => Promise<unknown>> {
  const client = new pg.Client({ connectionString })
  await client.connect()
  t.teardown(() => client.end())
  await client.query('begin')
  await client.query(text)
  return () => client.query('commit')
}

const platform = { token: signToken({ role: 'admin', sub: 'root' }) }

async function deletes (t: Test, engine: DatabaseSection): Promise<void> {
  const app = await testServer(t, {
    tables,
    routes: [{ method: 'get', path: '/authors', cache: { enabled: true }, queries: [{ table: 'authors', operation: 'select' }] }],
    cache: { enabled: true, provider: 'memory' }
  }, { engine, tenants: ['a', 'b'] })
  // With row-level security the tables have no policies, which the next start would reject: the deletion continues without a restart.
  await runAll(app, found)
  await fill(app, 'a', 100)
  await fill(app, 'b', 200)
  for (const one of [uuids.a, uuids.b]) {
    await app.tenants.create({ id: one, name: one })
    await run(app, `insert into by_uuid values ('${one}', 1)`)
  }
  const ask = caller(t, app)
  t.match(await ask('GET /authors', { tenant: 'a' }), { body: { pagination: { total: 2 } }, headers: { 'x-cache': 'MISS' } })
  t.match(await ask('GET /authors', { tenant: 'a' }), { headers: { 'x-cache': 'HIT' } })
  const before = await rowsOf(app, 'b', uuids.b)
  for (const [table, count] of Object.entries(await rowsOf(app, 'a', uuids.a))) t.ok(count > 0, `${table} has rows of the tenant`)
  t.ok(Object.values(before).every((count) => count > 0))

  const calls: string[] = []
  app.tenants.onDelete(async (tenant) => {
    calls.push(`${tenant} ${Object.values(await rowsOf(app, tenant)).join('')}`)
    await t.rejects(app.tenants.create({ id: tenant, name: 'next' }), { code: 'TENANTRY_CONFLICT' }, 'files of a next tenant are not at risk')
  })
  const heard = new Set<string>()
  for (const topic of ['config', 'secrets', 'roles', 'api-keys', 'limits', 'tenant'] as const) {
    t.teardown(app.events.on(topic, (tenant) => {
      heard.add(`${topic} ${tenant}`)
    }))
  }
  for (const one of ['a', uuids.a]) {
    // The status is 202 if the deletion takes more than ten seconds.
    t.match(await ask(`DELETE /tenants/${one}`, platform), { status: /^20[02]$/, body: { success: true } })
    await until('the deletion ends', async () => (await ask(`GET /tenants/${one}`, platform)).status === 404)
  }

  for (const [table, count] of Object.entries(await rowsOf(app, 'a', uuids.a))) t.equal(count, 0, `${table} has none any more`)
  t.same(await rowsOf(app, 'b', uuids.b), before, 'and all of the other tenant')
  t.same(await run(app, 'select id from tenantry.tenants order by id'), [{ id: uuids.b }, { id: 'b' }])
  t.same(await run(app, "select id from tenantry.deleted_tenants where id = 'a'"), [{ id: 'a' }])
  t.match(calls, [/^a 0+$/, new RegExp(`^${uuids.a} 0+$`)], 'listeners are notified afterwards')
  for (const topic of ['config', 'secrets', 'roles', 'api-keys', 'limits', 'tenant']) {
    t.ok(heard.has(`${topic} a`), `caches of ${topic} are notified`)
  }
  refused(t, await ask('GET /authors', { tenant: 'a' }), 404, 'TENANT_UNKNOWN')
  await app.tenants.create({ id: 'a', name: 'again' })
  t.match(
    await ask('GET /authors', { tenant: 'a' }),
    { body: { pagination: { total: 0 } }, headers: { 'x-cache': 'MISS' } },
    'a tenant with the same id starts empty'
  )
}

test('a deleted tenant leaves nothing, and another tenant keeps everything', (t) => forEachEngine(t, deletes))

test('a deletion that fails keeps the tenant closed, and is resumed', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const app = await testServer(t, {
    tables,
    routes: [{ method: 'get', path: '/authors', queries: [{ table: 'authors', operation: 'select' }] }]
  }, { engine: { provider: 'postgres', postgres: { connectionString } }, tenants: ['a', 'b'] })
  await runAll(
    app,
    `alter table authors add unique (id);
create table notes_of_nobody (author_id uuid references authors (id));
insert into authors (tenant_id, name) values ('a', 'x'), ('b', 'y');
insert into notes_of_nobody select id from authors where tenant_id = 'a';
`
  )
  const ask = caller(t, app)
  const response = await ask('DELETE /tenants/a', platform)
  refused(t, response, 409, 'CONFLICT')
  t.match(response.body['message'], /"authors"/, 'the log names the table')
  t.match((await ask('GET /tenants/a', platform)).body, { status: 'deleting' })
  refused(t, await ask('GET /authors', { tenant: 'a' }), 403, 'TENANT_SUSPENDED', 'strangers')
  refused(
    t,
    await ask('GET /tenant/info', { token: signToken({ tenant_id: 'a', role: 'admin' }) }),
    403,
    'TENANT_SUSPENDED',
    'its administrator'
  )
  refused(t, await ask('GET /authors', { ...platform, tenant: 'a' }), 403, 'TENANT_SUSPENDED', 'the platform')
  refused(t, await ask('PATCH /tenants/a', { ...platform, body: { status: 'active' } }), 409, 'CONFLICT')
  refused(t, await ask('POST /tenants', { ...platform, body: { id: 'a', name: 'a' } }), 409, 'CONFLICT')

  await run(app, 'delete from notes_of_nobody')
  const [first, second] = await Promise.all([ask('DELETE /tenants/a', platform), ask('DELETE /tenants/a', platform)])
  t.same([first.status, [200, 404].includes(second.status)], [200, true], 'two at once cause no failure')
  t.same(await rowsOf(app, 'a'), Object.fromEntries(Object.keys(await rowsOf(app, 'a')).map((table) => [table, 0])))
  t.same(await run(app, 'select tenant_id from authors'), [{ tenant_id: 'b' }])
})

test('a long deletion continues after its response, and until its end the id can be neither used nor taken', async (t) => {
  const database = await postgresDatabase(t)
  const { connectionString } = database
  const { app, as } = await testApp(t, {
    plugins: { database: { tables }, tenants: { deletionWaitMs: 0 } },
    engine: { provider: 'postgres', postgres: { connectionString } },
    tenants: ['a', 'b']
  })
  await app.engine.migration.apply()
  await runAll(app, "insert into authors (tenant_id, name) values ('a', 'x'), ('b', 'y')")
  const release = await holdRows(t, database, "select from authors where tenant_id = 'a' for update")
  const ask = as({ role: 'admin', sub: 'root' })
  refused(t, await ask('DELETE /tenants/unknown'), 404, 'TENANT_UNKNOWN')
  t.match(await ask('DELETE /tenants/a'), { status: 202, body: { success: true } })
  t.match(await ask('DELETE /tenants/a'), { status: 202, body: { success: true } })
  t.match(await ask('GET /tenants/a'), { body: { status: 'deleting' } })
  refused(t, await as({ tenant_id: 'a', role: 'admin' })('GET /tenant/info'), 403, 'TENANT_SUSPENDED')
  refused(t, await ask('POST /tenants', { body: { id: 'a', name: 'a' } }), 409, 'CONFLICT')
  await release()
  await until('the deletion ends', async () => (await ask('GET /tenants/a')).status === 404)
  t.same(await run(app, 'select tenant_id from authors'), [{ tenant_id: 'b' }])
  t.same(await run(app, "select action from tenantry.audit_log where target = 'a' and action = 'tenant.delete'"), [{ action: 'tenant.delete' }])
})

test('a deletion waits for transactions that have found the tenant, and no later one finds it', async (t) => {
  const database = await postgresDatabase(t)
  const { connectionString } = database
  const app = await testServer(t, { tables }, { engine: { provider: 'postgres', postgres: { connectionString } }, tenants: ['a'] })
  const { ended } = await app.db.transaction().execute(async (transaction) => {
    t.equal(await lockTenant(transaction, tenantIdOf('a'), 'shared'), true)
    t.match(await app.tenants.update('a', { status: 'suspended', plan: 'pro' }), { status: 'suspended', plan: 'pro' })
    const deletion = await app.tenants.beginDeletion('a')
    await until('the deletion waits', async () => (await database.admin(waitingDeletions)).length === 1)
    t.equal(await app.db.transaction().execute((later) => lockTenant(later, tenantIdOf('a'), 'shared')), false)
    await sql`insert into tenantry.revocations values ('a', 'u', '', now(), now())`.execute(transaction)
    return deletion
  })
  await ended
  t.same(await rowsOf(app, 'a'), Object.fromEntries(Object.keys(await rowsOf(app, 'a')).map((table) => [table, 0])))
})

test("a deletion that waits for a transaction holds no connection of the server's meanwhile", async (t) => {
  const database = await postgresDatabase(t)
  const postgres = { connectionString: database.connectionString, pool: { max: 2 } }
  const app = await testServer(t, { tables }, { engine: { provider: 'postgres', postgres }, tenants: ['a'] })
  const release = await holdRows(t, database, "select from tenantry.tenants where id = 'a' for key share")
  const { ended } = await app.tenants.beginDeletion('a')
  for (let count = 0; count < 5; count++) t.same(await run(app, 'select 1 as one'), [{ one: 1 }], 'another statement of the server')
  await until('the deletion waits', async () => (await database.admin(waitingDeletions)).length > 0)
  t.match(await app.tenants.get('a'), { status: 'deleting' })
  await release()
  await ended
  t.equal(await createTenantStore(app.db).read(tenantIdOf('a')), null)
})

test('two servers that delete one tenant take turns', async (t) => {
  const database = await postgresDatabase(t)
  const { connectionString } = database
  const servers = await testServers(t, { tables }, { engine: { provider: 'postgres', postgres: { connectionString } }, tenants: ['a'] })
  const [app] = servers
  await runAll(
    app,
    `with author as (insert into authors (tenant_id, name) values ('a', 'x') returning id)
  insert into articles (tenant_id, title, author_id) select 'a', n::text, id from author, generate_series(1, 20000) n`
  )
  // Both have begun when the first batch continues.
  const release = await holdRows(t, database, 'select from articles for update')
  const both = Promise.all(servers.map((server) => server.tenants.delete('a')))
  await until('both wait', async () => {
    const waiting = await database.admin("select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'")
    return waiting.length === 2
  })
  await release()
  await t.resolves(both)
  t.same(await run(app, 'select count(*)::int as left from articles'), [{ left: 0 }])
})

test('the deletions of a process that has ended are continued, also if one of them cannot end', async (t) => {
  const app = await testServer(t, { tables }, {
    engine: await postgresSection(t),
    tenants: ['ended', 'failing', 'kept', 'stuck']
  })
  const calls: string[] = []
  let isFailing = true
  app.tenants.onDelete((tenant) => {
    calls.push(tenant)
    if (tenant === 'failing' && isFailing) throw new Error('of the test')
  })
  await runAll(
    app,
    `alter table authors add unique (id);
create table notes_of_nobody (author_id uuid references authors (id));
insert into authors (tenant_id, name) select id, 'x' from tenantry.tenants;
insert into notes_of_nobody select id from authors where tenant_id = 'stuck';
update tenantry.tenants set status = 'deleting' where id <> 'kept';
`
  )
  const remaining = async () => (await run(app, 'select id from tenantry.tenants order by id')).map(({ id }) => id)
  const store = createTenantStore(app.db)
  const tried = [await store.deleting(1), await store.deleting(1), await store.deleting(1)].flat()
  t.same(tried.sort(), ['ended', 'failing', 'stuck'], 'each has its turn, however many fail')
  await t.rejects(app.tenants.continueDeletions(), { errors: [{ message: 'of the test' }, { code: 'TENANTRY_CONFLICT' }] })
  t.same(await remaining(), ['failing', 'kept', 'stuck'])
  t.same(await run(app, 'select tenant_id from authors order by 1'), [{ tenant_id: 'kept' }, { tenant_id: 'stuck' }])
  isFailing = false
  await t.rejects(app.tenants.continueDeletions(), { errors: [{ code: 'TENANTRY_CONFLICT' }] })
  t.same(await remaining(), ['kept', 'stuck'])
  t.same(calls, ['ended', 'failing', 'failing'], 'a failed listener is called again')
})

test("rows written during a tenant's deletion do not belong to the next tenant with that id", async (t) => {
  const app = await testServer(t, { tables }, { engine: await postgresSection(t), tenants: ['a', 'c'] })
  for (const tenant of ['a', 'c']) {
    await app.tenants.delete(tenant)
    await runAll(
      app,
      `insert into authors (tenant_id, name) values ('${tenant}', 'late');\ninsert into tenantry.documents (tenant_id, collection, id, data) values ('${tenant}', 'docs', 'late', '{}')`
    )
  }
  await app.tenants.create({ id: 'a', name: 'a' })
  t.equal(
    (await app.inject({ url: '/tenant/info', headers: bearer({ tenant_id: 'c', iat: Math.floor(Date.now() / 1000) + 2 }) })).statusCode,
    200,
    'by a token from afterwards'
  )
  for (const tenant of ['a', 'c']) {
    for (const [table, count] of Object.entries(await rowsOf(app, tenant))) {
      // The request of c is counted within the second.
      if (!/\busage_/.test(table)) t.equal(count, 0, `${table} of ${tenant}`)
    }
  }
})

test('deletion works with row-level security, under a role that obeys it', async (t) => {
  const { connectionString, admin } = await postgresDatabase(t, { role: 'owner' })
  const postgres = { connectionString, rowLevelSecurity: true, preparedStatements: false, pool: { max: 1 } }
  const app = await testServer(t, { tables }, { engine: { provider: 'postgres', postgres }, tenants: ['a', 'b'] })
  // The application's own policy, which hides other tenants' rows from a session, whatever the server sets.
  await runAll(
    app,
    "create policy own on topics_of_tenant for all using (tenant_id = current_setting('app.tenant_id', true))".replace(
      /^/,
      `create table topics_of_tenant (tenant_id text not null, name text);
insert into topics_of_tenant values ('a', 'x'), ('b', 'y');
alter table topics_of_tenant enable row level security;
alter table topics_of_tenant force row level security;
`
    )
  )
  for (const tenant of ['a', 'b']) {
    await admin(
      `insert into authors (tenant_id, name) values ('${tenant}', 'x'); insert into tenantry.documents (tenant_id, collection, id, data) values ('${tenant}', 'c', 'i', '{}')`
    )
  }
  await app.tenants.delete('a')
  for (const table of ['authors', 'tenantry.documents', 'topics_of_tenant']) {
    t.same(await admin(`select tenant_id from ${table}`), [{ tenant_id: 'b' }], table)
  }
})

test("a deleted tenant's id is forgotten when no token from before the deletion is accepted any more", async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const day = 86_400
  const maxLifetime = 30 * day
  const app = await testServer(t, { tables, jwt: { secret: testSecret, maxLifetime } }, {
    engine: { provider: 'postgres', postgres: { connectionString } },
    tenants: ['old', 'recent', 'again', 'stuck']
  })
  const store = createTenantStore(app.db)
  const erasure = createErasure(app, app.plans)
  t.equal(app.auth.maxLifetime, maxLifetime)
  const marks = async () => (await run(app, 'select id from tenantry.deleted_tenants order by id')).map(({ id }) => id)
  for (const tenant of ['old', 'recent', 'again', 'stuck']) {
    await app.tenants.delete(tenant)
    await runAll(app, `insert into authors (tenant_id, name) values ('${tenant}', 'late')`)
  }
  await app.tenants.create({ id: 'again', name: 'again' })
  await runAll(
    app,
    `insert into authors (tenant_id, name) values ('again', 'new');
update tenantry.deleted_tenants set deleted_at = now() - interval '32 days' where id <> 'recent';
update tenantry.deleted_tenants set deleted_at = now() - interval '29 days' where id = 'recent';
alter table authors add unique (id);
create table notes_of_nobody (author_id uuid references authors (id));
insert into notes_of_nobody select id from authors where tenant_id = 'stuck';
`
  )
  const turns = [await store.longDeleted(new Date(), 2), await store.longDeleted(new Date(), 2)]
  t.same(turns.flat().sort(), ['old', 'recent', 'stuck'], 'each has its turn, however many fail')
  await t.rejects(forgetDeleted(store, erasure, maxLifetime, Date.now()), { errors: [{ code: 'TENANTRY_CONFLICT' }] })
  t.same(await marks(), ['again', 'recent', 'stuck'])
  t.same(await run(app, 'select tenant_id, name from authors order by 1'), [{ tenant_id: 'again', name: 'new' }, {
    tenant_id: 'recent',
    name: 'late'
  }, { tenant_id: 'stuck', name: 'late' }])

  const ask = caller(t, app)
  const now = Math.floor(Date.now() / 1000)
  const made = (claims: object) => ask('GET /tenant/info', { token: signToken({ tenant_id: 'old', role: 'admin', ...claims }) })
  refused(t, await made({ iat: now - 33 * day, exp: now + 60 }), 401, 'TOKEN_INVALID')
  refused(t, await made({ iat: undefined }), 401, 'TOKEN_INVALID')
  t.equal(await store.read(tenantIdOf('old')), null, 'a token from before the deletion creates no tenant')
  // A server may have looked up the deleted tenant within the last second.
  await until('a new token creates the tenant', async () => (await made({})).status === 200)
})

test('a deletion does not read the jobs of other tenants', async (t) => {
  const { connectionString, admin } = await postgresDatabase(t, { role: 'owner' })
  // Workers look for jobs at the same time.
  const engine = { provider: 'postgres', postgres: { connectionString } } as const
  const app = await testServer(t, { queue: { workers: 0 } }, { engine, tenants: ['acme'] })
  await admin(`insert into tenantry_queue.job (name, data, state, started_on, completed_on)
    select 'jobs', json_build_object('tenant', 'globex', 'task', 'work', 'data', '{}'::json),
      (enum_range(null::tenantry_queue.job_state))[case when n % 1000 < 6 then n % 1000 + 1 else 4 end], now(), now() from generate_series(1, 15000) n`)
  await admin('vacuum analyze tenantry_queue.job')
  await app.tenants.delete(tenantIdOf('acme'), noActor)
  // Its sessions report what they have read when they end.
  await app.close()
  await until('the sessions have ended', async () =>
    (await admin("select from pg_stat_activity where datname = current_database() and usename <> 'postgres'")).length === 0)
  const [row] = await admin("select seq_tup_read as rows from pg_stat_user_tables where relid = 'tenantry_queue.job'::regclass")
  t.ok(Number(row?.['rows']) < 15_000, `${row?.['rows']} rows`)
})
