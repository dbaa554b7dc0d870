import { Registry } from 'prom-client'
import t from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { createTenantSeries } from '../../../plugins/metrics/requests.js'
import { samplesOf } from './exposition.js'

t.test('tenants have their own series up to the bound, and other tenants take the place of deleted ones', async (t) => {
  let time = 0
  const forward = (ms: number) => {
    time += ms
  }
  const registry = new Registry()
  const there = new Set(['acme', 'globex', 'other', 'umbrella'])
  let reachable = true
  const observe = createTenantSeries({
    registry,
    max: 2,
    present: async (ids) => {
      if (!reachable) throw new Error('away')
      return ids.filter((id) => there.has(id))
    },
    now: () => time,
    onError: () => {}
  })
  const counts = async () =>
    Object.fromEntries(
      samplesOf(t, await registry.metrics())
        .filter(({ name }) => name === 'tenantry_tenant_request_duration_seconds_count').map((
          { labels: { tenant = '' }, value }
        ) => [tenant, value])
    )
  const count = (...ids: string[]) => {
    for (const id of ids) observe(tenantRef(id), 0.2)
  }

  count('acme', 'globex', 'other', 'umbrella', 'acme')
  t.strictSame(await counts(), { acme: 2, globex: 1, '(other)': 2 })
  there.delete('acme')
  reachable = false
  forward(5000)
  count('umbrella')
  t.strictSame(await counts(), { acme: 2, globex: 1, '(other)': 3 }, 'none is removed while the deletion is unknown')
  reachable = true
  forward(5000)
  t.strictSame(await counts(), { globex: 1, '(other)': 3 })
  count('other', 'umbrella')
  t.strictSame(await counts(), { globex: 1, '(other)': 4, other: 1 }, 'a tenant named "other" is not the remainder')
})
