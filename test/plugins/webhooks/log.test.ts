/** The lines about failed deliveries: a tenant chooses its receivers and the number of its events, and must not fill the log. */
import { test } from 'tap'
import { postgresSection } from '../../helpers/postgres.js'
import { until } from '../../helpers/until.js'
import { open, receiver } from './app.js'

const events = ['entity.*']
const [debug, info, warn] = [20, 30, 40] // levels of pino

/** The levels and webhooks of the lines with a message. */
function log () {
  const lines: { readonly level: number, readonly msg: string, readonly tenant?: string, readonly webhook?: string }[] = []
  return {
    onLog (line: string): void {
      lines.push(JSON.parse(line))
    },
    of: (msg: string) => lines.filter((line) => line.msg === msg)
  }
}

test('deliveries that fail permanently have one line at warn for each webhook', async (t) => {
  const hears = await receiver(t)
  hears.respond = (_request, response) => {
    response.writeHead(410).end()
  }
  const { onLog, of } = log()
  const out = { url: `${hears.origin}/hook`, events }
  const { tell, as } = await open(t, await postgresSection(t), {
    onLog,
    tenants: { acme: [{ ...out, name: 'one' }, { ...out, name: 'other' }], globex: [{ ...out, name: 'one' }] }
  })
  await tell('acme', ...Array(20).keys())
  await tell('globex', 1)
  const failed = () => of('a webhook failed permanently')
  await until('all have failed', () => failed().length === 41)
  t.same(
    failed().filter(({ level }) => level === warn).map(({ tenant, webhook }) => `${tenant} ${webhook}`).sort(),
    ['acme one', 'acme other', 'globex one']
  )
  t.equal(failed().filter(({ level }) => level === debug).length, 38, 'the others are at debug')
  t.match((await as('acme')('GET /webhooks/deliveries?status=failed')).body, { pagination: { total: 40 } }, 'each is in the log of deliveries')
})

test('deliveries that are retried have one line at info for each webhook', async (t) => {
  const hears = await receiver(t)
  hears.respond = (_request, response) => {
    response.writeHead(500).end()
  }
  const { onLog, of } = log()
  const { tell, forward } = await open(t, await postgresSection(t), {
    onLog,
    tenants: { acme: [{ name: 'out', url: `${hears.origin}/hook`, events }] }
  })
  await tell('acme', 1)
  const retried = () => of('a webhook failed and will be retried')
  for (let attempts = 1; attempts <= 4; attempts++) {
    await until(`attempt ${attempts}`, () => retried().length === attempts)
    forward(3_600_000)
  }
  t.match(retried().map(({ level }) => level), [info, debug, debug, debug])
})
