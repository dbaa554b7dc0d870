/** `/doc` contains inputs that only templates read, and errors of limits, headers and tenants. */
import { test } from 'tap'
import { type TestDocument, testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { caller } from '../../http/caller.js'

const limits = { max: 1, windowMs: 60_000 }
type Route = NonNullable<TestDocument['routes']>[number]

const read: Omit<Route, 'path'> = {
  method: 'get',
  queries: [{ table: 'notes', operation: 'select', filters: [{ column: 'title', value: "{{query.title || 'none'}}" }] }],
  response: { all: '{{results.notes}}', lang: '{{headers.x-lang}}', at: '{{query.at}}' }
}

test('inputs of templates, statuses of rate limits, 431 and 404 are documented, for platform and tenant', async (t) => {
  const app = await testServer(t, {
    tables: { notes: { tenantScoped: true, columns: { id: { type: 'integer', primaryKey: true }, title: { type: 'text' } } } },
    rateLimit: { enabled: true, default: { max: 1000, statusCode: 418 } },
    routes: [
      { ...read, path: '/read', rateLimit: { ...limits, statusCode: 420 } },
      { method: 'get', path: '/closed', request: { query: { a: { type: 'string', required: true } } }, response: { a: '{{query.a}}' } }
    ]
  }, { tenants: ['acme'] })
  const ask = caller(t, app, { token: signToken({ role: 'admin', tenant_id: 'acme' }) })
  const saved = await ask('POST /tenant/config', {
    body: {
      rateLimit: { enabled: true, default: { max: 1000, statusCode: 419 } },
      routes: [{ ...read, path: '/own', rateLimit: { ...limits, statusCode: 421 } }, {
        method: 'get',
        path: '/plain',
        response: { ok: true }
      }]
    }
  })
  t.equal(saved.status, 200, saved.text)
  const { paths } = JSON.parse((await ask('GET /doc')).text)
  const parameters = (path: string) =>
    paths[path].get.parameters.flatMap(({ in: place, name }: { in?: string, name?: string }) =>
      name === undefined ? [] : `${String(place)} ${name}`
    ).sort()
  for (const path of ['/read', '/own']) {
    t.strictSame(parameters(path), ['header x-lang', 'query at', 'query limit', 'query offset', 'query title'], path)
  }
  t.strictSame(parameters('/closed'), ['query a'])
  for (const [path, status] of [['/read', 420], ['/own', 421], ['/closed', 418], ['/plain', 418], ['/plain', 419]] as const) {
    const documented = Object.keys(paths[path].get.responses)
    for (const expected of [String(status), '404', '431']) t.ok(documented.includes(expected), `${path} documents ${expected}: ${documented.join()}`)
  }
})
