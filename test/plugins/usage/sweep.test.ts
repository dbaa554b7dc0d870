/** The removal of old usage figures. */
import { test } from 'tap'
import { sweepUsage } from '../../../plugins/usage/store.js'
import { forEachEngine } from '../../helpers/postgres.js'
import { testServer } from '../../helpers/server.js'

test('daily figures are removed after 800 days, of each tenant', (t) =>
  forEachEngine(t, async (t, engine) => {
    const app = await testServer(t, {}, { engine, tenants: ['acme', 'globex'] })
    const rows = ['acme', 'globex'].flatMap((tenant) =>
      ['2024-01-01', '2024-01-02'].map((day) => ({ tenant_id: tenant, day, api_calls: 1, bandwidth_bytes: 1 }))
    )
    await app.db.insertInto('tenantry.usage_requests').values(rows).execute()
    const kept = async () =>
      (await app.db.selectFrom('tenantry.usage_requests').select(['tenant_id', 'day']).orderBy('tenant_id').orderBy('day').execute())
        .map(({ tenant_id: tenant, day }) => `${tenant} ${day}`)
    const end = Date.parse('2024-01-02T00:00:00Z') + 800 * 86_400_000
    await sweepUsage(app.db, end - 86_400_000)
    t.strictSame(await kept(), ['acme 2024-01-01', 'acme 2024-01-02', 'globex 2024-01-01', 'globex 2024-01-02'], 'on its last day')
    await sweepUsage(app.db, end)
    t.strictSame(await kept(), ['acme 2024-01-02', 'globex 2024-01-02'])
  }))
