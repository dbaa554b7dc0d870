/** Every built-in list has pages of the sizes that the document's `pagination` says. */
import { test } from 'tap'
import { isRecord } from '../../lib/plain-value.js'
import { testServer } from '../helpers/server.js'
import { signToken } from '../helpers/tokens.js'
import { caller, type Ask } from './caller.js'

const steps = [{ id: 'a', type: 'database', operation: 'select', table: 'notes' }] as const
const cached = { method: 'get', path: '/cached', cache: { enabled: true, ttl: 600 }, response: { a: '{{query.a}}' } } as const

test('built-in lists take the sizes of their pages from the document, and tell the total', async (t) => {
  const app = await testServer(t, {
    pagination: { defaultLimit: 2, maxLimit: 3, defaultOffset: 1 },
    cache: { enabled: true, provider: 'memory' },
    rbac: { enabled: true },
    tables: { notes: { tenantScoped: true, columns: { id: { type: 'integer', primaryKey: true } } } },
    workflows: ['a', 'b', 'c', 'd', 'e'].map((id) => ({ id, steps: [...steps] })),
    routes: [cached, { method: 'post', path: '/notes', queries: [{ table: 'notes', operation: 'insert' }] }]
  }, { tenants: [{ id: 'acme', plan: 'enterprise' }, 'b', 'c', 'd', 'e'] })
  const acme = caller(t, app, { token: signToken({ sub: 'ada', role: 'admin', tenant_id: 'acme' }) })
  const platform = caller(t, app, { token: signToken({ sub: 'root', role: 'admin' }) })
  for (let index = 0; index < 5; index++) {
    for (const [target, body] of [['secrets', { key: `k${index}`, value: 'a value that is kept' }], ['api-keys', { name: `k${index}` }], ['config', { settings: { index } }]] as const) {
      t.ok((await acme(`POST /tenant/${target}`, { body })).status < 300, target)
    }
    await acme('POST /notes', { body: { id: index } })
    const { body: { id: roleId } } = await platform('POST /rbac/roles', { body: { name: `role${index}` } })
    await platform('POST /rbac/assign', { body: { userId: 'ada', roleId } })
    await acme('POST /tenant/rbac/roles', { body: { name: `role${index}`, permissions: [] } })
    await caller(t, app)(`GET /cached?a=${index}`)
  }

  const lists: [Ask, string][] = [
    [acme, '/tenant/secrets'], [acme, '/tenant/secrets/audit'], [acme, '/tenant/api-keys'], [acme, '/tenant/config/versions'], [acme, '/agent/workflows'],
    [acme, '/audit'], [acme, '/admin/entities/notes'], [platform, '/tenants'], [platform, '/cache/keys'], [platform, '/rbac/roles'],
    [acme, '/tenant/rbac/roles'], [platform, '/rbac/users/ada/roles']
  ]
  for (const [ask, path] of lists) {
    const page = async (query: string) => {
      const { status, body } = await ask(`GET ${path}${query}`)
      t.equal(status, 200, path)
      const { pagination } = body
      const items = [body['secrets'] ?? body['data']].flat()
      return { items, pagination: isRecord(pagination) ? pagination : {} }
    }
    const all = await page('?limit=3&offset=0')
    const { total } = all.pagination
    t.ok(Number(total) >= 5, `${path} tells a total of ${String(total)}`)
    t.strictSame(await page(''), { items: [...all.items.slice(1, 3)], pagination: { limit: 2, offset: 1, total } }, `the default page of ${path}`)
    t.match(await page('?limit=5000'), { items: { length: 3 }, pagination: { limit: 3, offset: 1, total } }, `the largest page of ${path}`)
    t.strictSame((await page('?limit=1&offset=2')).items, all.items.slice(2, 3), `a later page of ${path}`)
  }
})
