/** Large numbers of events, and the removal of old ones. */
import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { test } from 'tap'
import { compileOutboundWebhook, tenantWebhookSources } from '../../../lib/connectors/outbound-webhook.js'
import { FaultList } from '../../../lib/schema/faults.js'
import { fanOut } from '../../../plugins/webhooks/fan-out.js'
import { sweepDeliveries } from '../../../plugins/webhooks/retention.js'
import { takeDue, takeStatement, type Turn } from '../../../plugins/webhooks/store.js'
import type { SubscriberDirectory, Subscribers } from '../../../plugins/webhooks/subscribers.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { rowsRead } from '../../helpers/rows-read.js'
import { open } from './app.js'

const webhook = { name: 'out', url: 'https://example.com/', events: ['entity.*'] }
const compiled = compileOutboundWebhook(webhook, '', { faults: new FaultList(), env: {}, sources: tenantWebhookSources }, 'tenant')

function book (): SubscriberDirectory {
  const noSubscribers: Subscribers = { version: null, webhooks: [], kinds: new Set(), entities: false }
  const own: Subscribers = { version: 1, webhooks: [compiled], kinds: compiled.kinds, entities: true }
  return { platform: noSubscribers, of: () => own, within: () => own, forget () {}, clear () {} }
}

test("a large number of a tenant's events does not delay others", async (t) => {
  const { connectionString, query } = await postgresDatabase(t)
  const { app } = await open(t, { provider: 'postgres', postgres: { connectionString } }, {
    deliver: false,
    tenants: { acme: [], globex: [] }
  })
  const insert = (tenant: string, count: number) =>
    query(`insert into tenantry.webhook_events (tenant_id, type, subject, data, at)
    select '${tenant}', 'entity.updated', 'notes:' || n, '{}', now() from generate_series(1, ${count}) n`)
  await insert('acme', 3000)
  await insert('globex', 1)
  const subscribers = book()
  const count = async (tenant: string) =>
    Number((await query('select count(*) from tenantry.webhook_deliveries where tenant_id = $1', [tenant]))[0]?.['count'])

  let pass = await fanOut(app.db, subscribers, '', new Date())
  t.ok(await count('acme') < 3000, 'a pass creates some of its deliveries')
  t.equal(await count('globex'), 1, 'and those of the others')
  while (pass.outcome !== 'done') pass = await fanOut(app.db, subscribers, pass.from, new Date())
  t.equal(await count('acme'), 3000)
})

test('a poll for due deliveries reads a few pages, however many deliveries of one tenant wait', async (t) => {
  const { connectionString, query } = await postgresDatabase(t)
  const { app } = await open(t, { provider: 'postgres', postgres: { connectionString } }, { deliver: false })
  const insert = (source: string, count: number) =>
    query(`with event as (insert into tenantry.webhook_events (tenant_id, type, subject, data, at, fanned_out)
      select '${source}', 'entity.created', 'notes:' || n, '{}', now(), true from generate_series(1, ${count}) n returning place, subject)
    insert into tenantry.webhook_deliveries (tenant_id, source, event, type, subject, endpoint, url, next_attempt_at, give_up_at, created_at)
    select '', '${source}', place, 'entity.created', subject, 'all', 'https://example.com', now() - interval '1 minute', now() + interval '1 day', now() from event`)
  await insert('flooder', 100_000)
  await insert('victim', 1)
  const look = { now: new Date(), holder: randomUUID(), each: 4, tenants: { from: '', full: [], room: 64 } }
  const pagesOf = async (platform: Turn) => {
    const { rows: [row] } = await sql<{ 'QUERY PLAN': [{ Plan: Record<string, number> }] }>`explain (analyze, buffers, format json) ${
      takeStatement({ ...look, platform })
    }`.execute(app.db)
    const plan = row?.['QUERY PLAN'][0].Plan
    return (plan?.['Shared Hit Blocks'] ?? Infinity) + (plan?.['Shared Read Blocks'] ?? Infinity)
  }
  for (const statistics of ['without statistics', 'with statistics']) {
    for (
      const platform of [{ from: '', full: [], room: 16 }, { from: '', full: ['flooder'], room: 8 }, {
        from: 'flooder\u0001',
        full: [],
        room: 16
      }]
    ) {
      const pages = await pagesOf(platform)
      t.ok(pages < 500, `${pages} pages, ${statistics}, ${JSON.stringify(platform)}`)
    }
    await query('analyze tenantry.webhook_deliveries')
  }
  const plan = await query(
    "explain select next_attempt_at from tenantry.webhook_deliveries where next_attempt_at is not null order by next_attempt_at at time zone 'UTC' limit 1"
  )
  t.match(JSON.stringify(plan), /Index Scan using webhook_deliveries_next/)
  await query(
    "update tenantry.webhook_deliveries set next_attempt_at = now() - interval '1 minute', holder = null where next_attempt_at > now()"
  )
  const taken = await takeDue(app.db, { ...look, platform: { from: '', full: [], room: 16 } })
  t.strictSame(taken.map(({ source }) => source).sort(), ['flooder', 'flooder', 'flooder', 'flooder', 'victim'])
})

test('events are removed after 30 days, with their deliveries', async (t) => {
  const { connectionString, query } = await postgresDatabase(t)
  const { app } = await open(t, { provider: 'postgres', postgres: { connectionString } }, { deliver: false })
  const day = 86_400_000
  const add = async (subject: string, days: number, status?: string, fannedOut = true) => {
    const [row] = await query(
      "insert into tenantry.webhook_events (tenant_id, type, subject, data, at, fanned_out) values ('', 'entity.updated', $1, '{}', $2, $3) returning place",
      [subject, new Date(Date.now() - days * day), fannedOut]
    )
    if (status === undefined) return
    await query(
      "insert into tenantry.webhook_deliveries (tenant_id, event, type, subject, endpoint, url, status, give_up_at, created_at) values ('', $1, 'entity.updated', $2, 'out', 'https://example.com', $3, now(), $4)",
      [row?.['place'], subject, status, new Date(Date.now() - days * day)]
    )
  }
  await add('old and delivered', 31, 'delivered')
  await add('old and failed', 31, 'failed')
  await add('old and waiting', 31, 'pending')
  await add('delivered', 29, 'delivered')
  await add('without a delivery', 31)
  await add('new', 0, undefined, false)
  t.equal(await sweepDeliveries(app.db, new Date()), true)
  t.strictSame((await query('select subject from tenantry.webhook_events order by subject')).map(({ subject }) => subject), [
    'delivered',
    'new',
    'old and waiting'
  ])
  t.strictSame((await query('select subject from tenantry.webhook_deliveries order by subject')).map(({ subject }) => subject), [
    'delivered',
    'old and waiting'
  ])
})

test('a log of more than 100,000 deliveries is shortened in batches', async (t) => {
  const { connectionString, admin } = await postgresDatabase(t, { role: 'owner' })
  const { app } = await open(t, { provider: 'postgres', postgres: { connectionString } }, { deliver: false })
  await admin(`with events as (
      insert into tenantry.webhook_events (tenant_id, type, subject, data, at, fanned_out)
      select case when n <= 115000 then 'flooder' else 'other' || n end, 'entity.created', n, '{}', now() - n * interval '1 second', true
      from generate_series(1, 120000) n returning place, tenant_id, subject, at
    )
    insert into tenantry.webhook_deliveries (tenant_id, event, type, subject, endpoint, url, status, give_up_at, created_at)
    select tenant_id, place, 'entity.created', subject, 'out', 'https://example.com', case when subject = '114000' then 'pending' else 'delivered' end, at, at
    from events`)
  await admin('analyze tenantry.webhook_deliveries')
  t.equal(await sweepDeliveries(app.db, new Date()), true)
  t.strictSame(
    await admin(`select tenant_id = 'flooder' as full, count(*)::int as n, max(subject::int) filter (where status <> 'pending') as oldest
      from tenantry.webhook_deliveries group by 1 order by 1`),
    [{ full: false, n: 5000, oldest: 120_000 }, { full: true, n: 100_001, oldest: 100_000 }],
    'the oldest ended ones are gone'
  )
  t.strictSame(await admin('select count(*)::int as n from tenantry.webhook_events'), [{ n: 105_001 }], 'with their events')
})

test('a statement of the sweep reads the deliveries of a few tenants', async (t) => {
  const { connectionString, admin } = await postgresDatabase(t, { role: 'owner' })
  const { app } = await open(t, { provider: 'postgres', postgres: { connectionString } }, { deliver: false })
  await admin(`with events as (
      insert into tenantry.webhook_events (tenant_id, type, subject, data, at, fanned_out)
      select 'tenant' || n % 60, 'entity.created', n, '{}', now(), true from generate_series(1, 30000) n returning place, tenant_id, subject, at
    )
    insert into tenantry.webhook_deliveries (tenant_id, event, type, subject, endpoint, url, status, give_up_at, created_at)
    select tenant_id, place, 'entity.created', subject, 'out', 'https://example.com', 'delivered', at, at from events`)
  await admin('vacuum analyze tenantry.webhook_events')
  await admin('vacuum analyze tenantry.webhook_deliveries')
  const rows = await rowsRead(app.db, (db) => sweepDeliveries(db, new Date()))
  t.ok(rows < 15_000, `${rows} rows`)
})
