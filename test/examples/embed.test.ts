/** Apps that embed single plugins, started from their files and used over HTTP. */
import t from 'tap'
import { type Program, startProgram } from '../helpers/program.js'
import { callerOf } from './caller.js'

function lineAfter ({ output }: Program, line: string): string {
  const lines = output().split('\n')
  return lines[lines.indexOf(line) + 1] ?? ''
}

t.test('an app with its own routes serves declared ones beside them', async (t) => {
  const program = await startProgram(t, 'examples/embed/index.ts')
  const anybody = callerOf(program.address)
  const seller = callerOf(program.address, lineAfter(program, 'a token that may add products:'))

  t.match(await anybody('GET', '/'), { status: 200, body: { shop: 'open' } })
  t.match(await anybody('POST', '/products', { name: 'Tea', price: 450 }), { status: 401, body: { code: 'TENANTRY_TOKEN_MISSING' } })
  t.match(await seller('POST', '/products', { name: 'Tea', price: 450 }), { status: 201, body: { name: 'Tea', price: 450 } })
  t.match(await seller('POST', '/products', { name: 'Tea', price: 450 }), { status: 409, body: { code: 'TENANTRY_CONFLICT' } })
  t.match(await seller('POST', '/products', { name: 'Rum', price: -1 }), { status: 400, body: { details: [{ path: '/body/price' }] } })
  const list = await anybody('GET', '/products')
  t.match(list, { status: 200, body: { data: [{ name: 'Tea' }], pagination: { limit: 20, offset: 0, total: 1 } } })
  t.equal(list.headers.get('x-ratelimit-limit'), '100')

  t.match(await anybody('GET', '/broken'), { status: 500, body: { problem: 'the shop has a problem' } }, "the app's own errors keep their form")
  t.equal((await anybody('GET', '/')).headers.get('x-ratelimit-limit'), null, "the app's own routes are not counted")
  t.match((await anybody('GET', '/doc')).body, { openapi: /^3\.1/, info: { title: 'Shop' }, paths: { '/products': { get: {}, post: {} } } })
  t.equal(await program.stop(), 0)
})

t.test('an app without a database protects and counts its own routes', async (t) => {
  const program = await startProgram(t, 'examples/plugins/index.ts')
  const anybody = callerOf(program.address)
  const observer = callerOf(program.address, lineAfter(program, 'a token:'))
  const builder = callerOf(program.address, lineAfter(program, 'a token that may add stations:'))

  t.match(await anybody('GET', '/'), { status: 200, body: { weather: 'fair' } })
  t.match(await anybody('GET', '/me'), { status: 401, body: { code: 'TENANTRY_TOKEN_MISSING' } })
  t.match(await observer('GET', '/me'), { status: 200, body: { sub: 'sam', role: 'observer' } })
  t.equal((await observer('POST', '/stations')).status, 403)
  t.match(await builder('POST', '/stations'), { status: 201, body: { added: true } })

  t.match(await anybody('GET', '/forecast'), { status: 200, body: { details: 'sign in for more' } })
  t.match(await observer('GET', '/forecast'), { status: 200, body: { details: /noon/ } })
  t.match(await callerOf(program.address, 'nonsense')('GET', '/forecast'), { status: 401 })
  await anybody('GET', '/forecast')
  await anybody('GET', '/forecast')
  const refused = await anybody('GET', '/forecast')
  t.equal(refused.status, 429)
  t.ok(Number(refused.headers.get('retry-after')) > 0)
  t.equal(await program.stop(), 0)
})

t.test('an app gives its tenants their own routes, secrets, keys and roles', async (t) => {
  const program = await startProgram(t, 'examples/tenants/index.ts')
  const alan = callerOf(program.address, lineAfter(program, 'a token of the administrator of the tenant "harbour":'))
  const cleo = callerOf(program.address, lineAfter(program, 'a token of a clerk there:'))
  const otto = callerOf(program.address, lineAfter(program, 'a token of a clerk of the tenant "orchard":'))
  const anybody = callerOf(program.address)

  t.equal((await cleo('GET', '/signature')).status, 403)
  await alan('PUT', '/tenant/rbac', { enabled: true, roles: [{ name: 'clerk', permissions: ['orders:*'] }] })
  t.match(
    await cleo('GET', '/signature'),
    { status: 200, body: { tenant: 'harbour', canSign: false } },
    "the tenant's role opens the app's own route"
  )
  t.equal((await otto('GET', '/signature')).status, 403, "but not to another tenant's users")
  t.equal((await alan('POST', '/tenant/secrets', { key: 'signing_key', value: 'a-key-of-the-harbour' })).status, 201)
  t.match((await cleo('GET', '/signature')).body, { canSign: true })

  const routes = [
    {
      path: '/orders',
      method: 'get',
      requiredPermissions: ['orders:read'],
      queries: [{ table: 'orders', operation: 'select', select: 'item' }]
    },
    {
      path: '/orders',
      method: 'post',
      requiredPermissions: ['orders:write'],
      queries: [{ table: 'orders', operation: 'insert', select: 'item' }]
    }
  ]
  t.match(await alan('POST', '/tenant/config', { routes: [{ ...routes[0], path: '/signature' }] }), {
    status: 409,
    body: { code: 'TENANTRY_ROUTE_CONFLICT' }
  })
  t.match(await alan('POST', '/tenant/config', { routes }), { status: 200, body: { version: 1 } })
  t.match(await cleo('POST', '/orders', { item: 'rope' }), { status: 201, body: { item: 'rope' } })
  t.equal((await otto('GET', '/orders')).status, 404, 'another tenant has no such route')

  const { body: { key } } = await alan('POST', '/tenant/api-keys', { name: 'export', scopes: ['orders:read'] })
  t.match((await anybody('GET', '/orders', undefined, { 'x-api-key': String(key) })).body, { data: [{ item: 'rope' }] })
  t.equal((await anybody('POST', '/orders', { item: 'tar' }, { 'x-api-key': String(key) })).status, 403)
  t.equal(await program.stop(), 0)
})
