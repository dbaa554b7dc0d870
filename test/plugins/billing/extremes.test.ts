/** Correctly signed events with a member of another kind or at the edge of its range. */
import { Webhook } from 'standardwebhooks'
import { test } from 'tap'
import { isRecord } from '../../../lib/json/plain-value.js'
import { altprovServer } from '../../helpers/altprov/index.js'
import { payprovWorld } from '../../helpers/payprov/index.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { testServer } from '../../helpers/server.js'
import { deliver, envOf, optionsOf, sellAll } from './app.js'

const second = 1000 // ms
const extremes: readonly unknown[] = [
  null, -1, 1e308, Number.MAX_SAFE_INTEGER, 'x'.repeat(10_000), 'a\u0000b', '\ud800', [], '0001-01-01T00:00:00Z', '9999-12-31T23:59:59.999Z',
  '2026-12-31T23:59:60Z', 253_402_300_799
]

type Path = readonly (string | number)[]

/** The paths of all members. */
function pathsOf (value: unknown, path: Path = []): Path[] {
  if (Array.isArray(value)) return [path, ...value.flatMap((item, index) => pathsOf(item, [...path, index]))]
  if (isRecord(value)) return [path, ...Object.entries(value).flatMap(([name, member]) => pathsOf(member, [...path, name]))]
  return [path]
}

function replaced (value: unknown, [head, ...rest]: Path, by: unknown): unknown {
  if (head === undefined) return by
  if (Array.isArray(value)) return value.map((item, index) => index === head ? replaced(item, rest, by) : item)
  if (!isRecord(value)) return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, name === head ? replaced(member, rest, by) : member]))
}

test('a signed event with a wrong or extreme member is accepted or a 400, and never a 500', async (t) => {
  const { connectionString, query } = await postgresDatabase(t)
  const payprov = await payprovWorld(t, { now: Date.now() })
  const altprov = await altprovServer(t)
  altprov.advance(Date.now() - altprov.now())
  const [sold, alsoSold] = [sellAll(payprov), sellAll(altprov)]
  const { webhookSecret = '', productMap } = optionsOf('altprov', altprov, alsoSold).altprov ?? {}
  const app = await testServer(t, {}, {
    engine: { provider: 'postgres', postgres: { connectionString } },
    tenants: ['acme', 'globex'],
    env: {
      ...envOf('payprov', payprov, sold),
      ALTPROV_WEBHOOK_SECRET: webhookSecret,
      ALTPROV_PRODUCT_MAP: JSON.stringify(productMap)
    }
  })
  let sent = 0
  const providers = [
    {
      name: 'payprov',
      event: payprov.event('created', payprov.subscribe('acme', sold.pro_monthly)),
      signed (text: string) {
        const id = `msg_${++sent}`
        const time = new Date(Math.floor(Date.now() / second) * second)
        return {
          body: Buffer.from(text),
          headers: {
            'webhook-id': id,
            'webhook-timestamp': String(time.getTime() / second),
            'webhook-signature': new Webhook(payprov.webhookSecret, { format: 'raw' }).sign(id, time, text)
          }
        }
      }
    },
    { name: 'altprov', event: altprov.event('created', altprov.subscribe('acme', alsoSold.pro_monthly)), signed: (text: string) => altprov.sign(Buffer.from(text)) }
  ] as const
  for (const { name, event, signed } of providers) {
    const value: unknown = JSON.parse(event.body.toString())
    const wrong: unknown[] = []
    for (const path of pathsOf(value)) {
      for (const extreme of extremes) {
        const changed = replaced(value, path, extreme)
        const own = isRecord(changed) && typeof changed['id'] === 'string' && path.length > 0 && path[0] !== 'id'
          ? { ...changed, id: `evt_${++sent}` }
          : changed
        const { status } = await deliver(app, name, signed(JSON.stringify(own)))
        if (status !== 200 && status !== 400) wrong.push([path.join('/'), String(extreme).slice(0, 40), status])
      }
    }
    t.strictSame(wrong, [], name)
  }
  t.ok(sent > 500, 'all members were replaced')
  const [other] = await query("select plan from tenantry.tenants where id = 'globex'")
  t.equal(other?.['plan'], 'free', 'no event reached another tenant')
  const [mine] = await query("select count(*)::int as n from tenantry.billing_subscriptions where tenant_id <> 'acme'")
  t.equal(mine?.['n'], 0)
})
