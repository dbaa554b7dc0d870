/** Routes of tenants that share their compiled form, and routes that do not. */
import { test } from 'tap'
import type { Route } from '../../../lib/schema/route.js'
import { createSharedRoutes } from '../../../plugins/tenant-config/shared-routes.js'
import { compile } from '../../lib/compiler/routes.js'
import { scopeOf } from '../../lib/queries/helpers.js'
import { library } from '../../lib/queries/tables.js'

const one: Route = { path: '/a/:id', method: 'get', queries: [{ table: 'articles', operation: 'select', id: '{{params.id}}' }] }
const cached: Route = { ...one, cache: { enabled: true, key: 'article:{{params.id}}' } }
const webhook: Route = { path: '/hooks/a', method: 'post', webhook: { provider: 'github', secret: 'x' }, response: { ok: true } }

test('routes that differ only in path, description and tags share their compiled form', async (t) => {
  const catalogue = library()
  const shared = createSharedRoutes()
  const make = (route: Route, settings: unknown = {}, tables = catalogue) =>
    shared(settings)(route, tables, () => compile(route, { origin: 'tenant', catalogue: tables }))
  const first = make(one)
  for (const same of [{ ...one }, { ...one, path: '/b/c/:id' }, { ...one, description: 'x', tags: ['y'] }]) {
    t.equal(make(same), first, same.path)
  }

  t.not(make({ ...one, path: '/a/:other', queries: [{ table: 'articles', operation: 'select', id: '{{params.other}}' }] }), first)
  t.not(make({ ...one, path: '/a/:more/:id' }), first, 'other parameters')
  t.not(make({ ...one, requireAuth: true }), first, 'another member')
  t.not(make(one, { cache: { ttl: 5 } }), first, 'another document')
  t.not(make(one, {}, library()), first, 'other tables')
})

test('a route is not shared if its responses or deliveries are stored by path', async (t) => {
  const catalogue = library()
  const compileShared = createSharedRoutes()({})
  const make = (route: Route) => compileShared(route, catalogue, () => compile(route, { origin: 'tenant', catalogue }))
  const [first, second] = [make(cached), make({ ...cached, path: '/b/:id' })]
  const keyOf = (route: typeof first) => route?.cache?.key(scopeOf({ params: { id: '1' } }), { method: 'GET', path: '/x/1', query: '' })
  t.type(keyOf(first), 'string')
  t.not(keyOf(first), keyOf(second))
  t.equal(make(webhook)?.webhook?.path, '/hooks/a')
  t.equal(make({ ...webhook, path: '/hooks/b' })?.webhook?.path, '/hooks/b')
})
