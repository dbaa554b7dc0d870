import { test } from 'tap'
import { tenantIdOf } from '../../../lib/identity/tenant-ref.js'
import { testApp } from '../../helpers/app.js'
import { testServer } from '../../helpers/server.js'
import { byGithub } from '../../helpers/webhooks.js'
import { admin, platform, save } from './document.js'

test('the log names the faults of saved webhooks that this server cannot send', async (t) => {
  const lines: string[] = []
  const { app } = await testApp(t, {
    plugins: { tenancy: {}, 'rate-limit': {}, 'tenant-config': { env: {} } },
    engine: { provider: 'embedded' },
    tenants: ['acme'],
    onLog: (line) => lines.push(line)
  })
  // As a server saved it that had the setting.
  const document = JSON.stringify({
    webhooks: [
      { name: 'in', path: '/in', provider: 'github', secret: '{{secret:hook}}' },
      { name: 'out', url: 'https://example.com/{{env.REMOVED}}', events: ['entity.created'] }
    ]
  })
  await app.db.insertInto('tenantry.tenant_configs').values({ tenant_id: 'acme', version: 1, document, created_by: 'ada' }).execute()
  t.strictSame(await app.tenantDocuments.webhooks(tenantIdOf('acme'), app.db), { version: 1, webhooks: [] })
  const logged = lines.map((line) => JSON.parse(line)).filter(({ tenant }) => tenant === 'acme')
  t.match(logged, [{ version: 1, faults: [/^\/webhooks\/1\/url: .*REMOVED/], msg: /none of them is sent/ }])
})

test("rules of the tenant's document do not count its signed calls, unless the route has its own rule", async (t) => {
  const app = await testServer(t, { ...platform, databaseProvider: 'embedded' }, { tenants: ['acme'] })
  const secret = await app.inject({
    method: 'POST',
    url: '/tenant/secrets',
    headers: admin('acme'),
    payload: { key: 'hook', value: 'the secret of the hook' }
  })
  t.equal(secret.statusCode, 201)
  const hook = { path: '/hook', method: 'post', webhook: { provider: 'github', secret: '{{secret:hook}}' }, response: { ok: true } }
  const saved = await save(app, 'acme', {
    rateLimit: { enabled: true, default: { max: 1 } },
    routes: [
      hook,
      { ...hook, path: '/limited', rateLimit: { max: 1 } }
    ],
    webhooks: [{
      name: 'in',
      path: '/in',
      provider: 'github',
      secret: '{{secret:hook}}',
      workflow: { steps: [{ id: 'read', type: 'database', operation: 'select', table: 'notes' }] }
    }]
  })
  t.equal(saved.statusCode, 200, saved.body)
  const twice = async (path: string) => {
    const statuses = []
    for (const payload of ['{"n":1}', '{"n":2}']) {
      const { headers } = byGithub('the secret of the hook', payload)
      statuses.push((await app.inject({ method: 'POST', url: `${path}?tenant=acme`, headers, payload })).statusCode)
    }
    return statuses
  }
  t.strictSame(await twice('/hook'), [200, 200])
  t.strictSame(await twice('/in'), [200, 200])
  t.strictSame(await twice('/limited'), [200, 429])
})
