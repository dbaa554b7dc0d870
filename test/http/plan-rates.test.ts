/** Plans' requests per minute, in documents with and without disabled rate limits. */
import { type Test, test } from 'tap'
import { createServer } from '../../lib/server.js'
import { postgresSection } from '../helpers/postgres.js'
import { testDocument, testEnv } from '../helpers/server.js'
import { signToken } from '../helpers/tokens.js'
import { caller } from './caller.js'

/** The statuses of five requests of a tenant whose plan allows three a minute, and of five anonymous ones. */
async function statuses (
  t: Test,
  document: Parameters<typeof testDocument>[0]
): Promise<{ tenant: number[], anonymous: number[], limit: unknown }> {
  const { rateLimit: _, ...whole } = testDocument({
    plans: { free: { limits: { api: { requestsPerMinute: 3 } } } },
    routes: [{ method: 'get', path: '/a', response: { ok: true } }]
  }, await postgresSection(t))
  const app = createServer({ ...whole, ...document }, { env: testEnv, logger: false })
  t.teardown(() => app.close())
  const ask = caller(t, app)
  const token = signToken({ tenant_id: 'acme' })
  const tenant: number[] = []
  const anonymous: number[] = []
  let limit: unknown
  for (let index = 0; index < 5; index++) {
    const response = await ask('GET /a', { token })
    limit ??= response.headers['x-ratelimit-limit']
    tenant.push(response.status)
  }
  for (let index = 0; index < 5; index++) anonymous.push((await ask('GET /a')).status)
  return { tenant, anonymous, limit }
}

test("without a section rateLimit a plan limits only its own tenants' requests per minute", async (t) => {
  t.strictSame(await statuses(t, {}), { tenant: [200, 200, 200, 429, 429], anonymous: [200, 200, 200, 200, 200], limit: '3' })
})

test("a disabled rateLimit disables the plans' limits too", async (t) => {
  t.strictSame(await statuses(t, { rateLimit: { enabled: false } }), {
    tenant: [200, 200, 200, 200, 200],
    anonymous: [200, 200, 200, 200, 200],
    limit: undefined
  })
})
