/** References to secrets that the tenant does not have. */
import { test } from 'tap'
import { testServer } from '../helpers/server.js'
import { signToken } from '../helpers/tokens.js'
import { until } from '../helpers/until.js'
import { caller } from './caller.js'

const write = (key: string) => [
  { id: 'write', type: 'database' as const, operation: 'insert', table: 'notes', data: { text: `{{secret:${key}}}` } }
]

test('a missing secret is logged, and does not fail the request', async (t) => {
  const lines: Record<string, unknown>[] = []
  const app = await testServer(t, {
    tables: { notes: { tenantScoped: true, columns: { id: { type: 'uuid', primaryKey: true, default: 'uuid()' }, text: { type: 'text' } } } },
    workflows: [{ id: 'sync', steps: write('SYNC') }, { id: 'async', steps: write('ASYNC') }],
    routes: [{ path: '/notes', method: 'post', queries: [{ table: 'notes', operation: 'insert', data: { text: '{{secret:ROUTE}}' } }] }]
  }, {
    engine: { provider: 'embedded' },
    tenants: ['acme'],
    logger: {
      level: 'warn',
      stream: {
        write (line: string) {
          lines.push(JSON.parse(line))
        }
      }
    }
  })
  const acme = caller(t, app, { token: signToken({ sub: 'ada', role: 'admin', tenant_id: 'acme' }) })
  const logged = () => lines.filter(({ msg }) => msg === 'a secret is missing: its placeholder is not replaced').map(({ key }) => key)

  t.match(await acme('POST /notes', { body: {} }), { status: 201 })
  t.match(await acme('POST /agent/workflow/run', { body: { ref: 'sync', async: false } }), { status: 200 })
  t.match(await acme('POST /agent/workflow', { body: { steps: write('INLINE'), async: false } }), { status: 200 })
  t.strictSame(logged(), ['ROUTE', 'SYNC', 'INLINE'])
  t.match(await acme('POST /agent/workflow/run', { body: { ref: 'async' } }), { status: 202 })
  await until('the run is logged', () => logged().includes('ASYNC'))

  const connector = {
    name: 'own',
    baseUrl: 'https://service.invalid',
    auth: { type: 'bearer', token: '{{secret:CALL}}' },
    actions: { call: { method: 'post', path: '/' } }
  }
  t.match(await acme('POST /tenant/config', { body: { customIntegrations: [connector] } }), { status: 200 })
  await acme('POST /integrations/own/call', { body: {} })
  t.equal(logged().at(-1), 'CALL')
})
