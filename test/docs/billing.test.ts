/** The program of docs/guides/billing.md that stands in for the provider. */
import t from 'tap'
import { payprovWorld } from '../helpers/payprov/index.js'
import { listen, testServer } from '../helpers/server.js'
import { envOf, sellAll } from '../plugins/billing/app.js'
import { blocksOf, page } from './markdown.js'

t.test('the documented event of a payment gives the tenant its plan', async (t) => {
  const program = blocksOf(page('docs/guides/billing.md')).find(({ text }) => text.includes('createHmac'))?.text ?? ''
  const documented = 'http://127.0.0.1:3000'
  t.ok(program.includes(documented))
  const world = await payprovWorld(t)
  const env = envOf('payprov', world, sellAll(world))
  const app = await testServer(t, {}, { env, tenants: ['acme'] })
  const origin = await listen(app)
  const settings = JSON.stringify({ PAYPROV_WEBHOOK_SECRET: env['PAYPROV_WEBHOOK_SECRET'], PAYPROV_PRODUCT_MAP: env['PAYPROV_PRODUCT_MAP'] })
  const lines = t.capture(console, 'log')

  await import(`data:text/javascript,${encodeURIComponent(`const process = { env: ${settings} }\n${program.replace(documented, origin)}`)}`)
  t.strictSame(lines().map(({ args }) => args), [[200]])
  t.equal((await app.tenants.get('acme'))?.plan, 'pro')
})
