import { test } from 'tap'
import { tenantIdOf } from '../../../lib/identity/tenant-ref.js'
import { testApp } from '../../helpers/app.js'

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
