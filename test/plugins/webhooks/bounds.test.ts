/** Very many events, and what is left of old ones. */
import type { HearerBook, Hearers } from '../../../plugins/webhooks/hearers.js'
import { test } from 'tap'
import { compileOutboundWebhook, tenantWebhookSources } from '../../../lib/compiler/outbound-webhook.js'
import { FaultList } from '../../../lib/config/faults.js'
import { fanOut } from '../../../plugins/webhooks/fan-out.js'
import { sweepDeliveries } from '../../../plugins/webhooks/store.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { open } from './app.js'

const webhook = { name: 'out', url: 'https://example.com/', events: ['entity.*'] }
const compiled = compileOutboundWebhook(webhook, '', { faults: new FaultList(), env: {}, sources: tenantWebhookSources }, 'tenant')

function book (): HearerBook {
  const nobody: Hearers = { version: null, webhooks: [], kinds: new Set(), entities: false }
  const own: Hearers = { version: 1, webhooks: [compiled], kinds: compiled.kinds, entities: true }
  return { platform: nobody, of: () => own, within: () => own, forget () {}, close () {} }
}

test('very many events of a tenant keep nobody else waiting', async (t) => {
  const { connectionString, query } = await postgresDatabase(t)
  const { app } = await open(t, { provider: 'postgres', postgres: { connectionString } }, { deliver: false, tenants: { acme: [], globex: [] } })
  const insert = (tenant: string, count: number) => query(`insert into tenantry.webhook_events (tenant_id, type, subject, data, at)
    select '${tenant}', 'entity.updated', 'notes:' || n, '{}', now() from generate_series(1, ${count}) n`)
  await insert('acme', 3000)
  await insert('globex', 1)
  const hearers = book()
  const count = async (tenant: string) => Number((await query('select count(*) from tenantry.webhook_deliveries where tenant_id = $1', [tenant]))[0]?.['count'])

  let pass = await fanOut(app.db, hearers, '', new Date())
  t.ok(await count('acme') < 3000, 'a pass makes some of them')
  t.equal(await count('globex'), 1, 'and those of the others')
  while (pass.outcome !== 'done') pass = await fanOut(app.db, hearers, pass.from, new Date())
  t.equal(await count('acme'), 3000)
})

test('what is over leaves: after 30 days, and events of which no delivery is left', async (t) => {
  const { connectionString, query } = await postgresDatabase(t)
  const { app } = await open(t, { provider: 'postgres', postgres: { connectionString } }, { deliver: false })
  const day = 86_400_000
  const add = async (subject: string, days: number, status?: string, fannedOut = true) => {
    const [row] = await query("insert into tenantry.webhook_events (tenant_id, type, subject, data, at, fanned_out) values ('', 'entity.updated', $1, '{}', $2, $3) returning place", [subject, new Date(Date.now() - days * day), fannedOut])
    if (status === undefined) return
    await query("insert into tenantry.webhook_deliveries (tenant_id, event, type, subject, endpoint, url, status, give_up_at, created_at) values ('', $1, 'entity.updated', $2, 'out', 'https://example.com', $3, now(), $4)", [row?.['place'], subject, status, new Date(Date.now() - days * day)])
  }
  await add('old and delivered', 31, 'delivered')
  await add('old and failed', 31, 'failed')
  await add('old and waiting', 31, 'pending')
  await add('delivered', 29, 'delivered')
  await add('without a delivery', 1)
  await add('new', 0, undefined, false)
  t.equal(await sweepDeliveries(app.db, new Date()), true)
  t.strictSame((await query('select subject from tenantry.webhook_events order by subject')).map(({ subject }) => subject), ['delivered', 'new', 'old and waiting'])
  t.strictSame((await query('select subject from tenantry.webhook_deliveries order by subject')).map(({ subject }) => subject), ['delivered', 'old and waiting'])
})
