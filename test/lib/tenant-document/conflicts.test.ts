/** No tenant route replaces a server route, or looks like one. */
import t from 'tap'
import { conflictsOf, faultsOf, route } from './documents.js'

const at = (path: string, method = 'get') => ({ ...route, path, method })

t.test('paths of built-in endpoints are taken, for every method and even if disabled', async (t) => {
  for (
    const path of [
      '/health',
      '/doc/openapi.json',
      '/tenant/config',
      '/tenant/secrets/a',
      '/tenant/secrets/:key',
      '/billing/plans',
      '/files/download/a/b/c',
      '/HEALTH',
      '/Tenant/Secrets/x',
      '/tenantS'
    ]
  ) {
    t.strictSame(await conflictsOf(at(path)), ['/routes/0/path'], path)
  }
  t.strictSame(await conflictsOf(at('/health', 'delete')), ['/routes/0/path'])
})

t.test("the server's own routes are taken where they match every request", async (t) => {
  t.strictSame(await conflictsOf(at('/free'), at('/items/1'), at('/assets/a/:b'), at('/ITEMS/:x')), [
    '/routes/1/path',
    '/routes/2/path',
    '/routes/3/path'
  ], 'each is named')
  t.strictSame(await conflictsOf(at('/years/1999')), ['/routes/0/path'])
  t.strictSame(await conflictsOf(at('/orders', 'POST')), ['/routes/0/path'])
  t.strictSame(
    await conflictsOf(at('/items/1', 'delete'), at('/:a/:b'), at('/items/1/more'), at('/years/:year'), at('/years/last'), at('/orders')),
    [],
    'other paths are free'
  )
})

t.test('an invalid path is rejected, so that no spelling of a built-in path is another path', async (t) => {
  const paths = [
    '/../health',
    '/./health',
    '//health',
    '/health/',
    '/%68ealth',
    '/tenant%2fconfig',
    '/tenant%2Fconfig',
    '/tenant\\config',
    '/health;a=1',
    '/health?x',
    '/health#x',
    '/he%00alth',
    '/ｈealth',
    '/hеalth',
    '/a b',
    '/*',
    '/a*',
    '/:a?',
    '/:a(.*)',
    '/:a-:b',
    '/x:a',
    'health',
    '',
    '/:__proto__\u0001',
    '/a\n'
  ]
  for (const path of paths) t.match(await faultsOf({ routes: [at(path)] }), [/^\/routes\/0\/path: /], JSON.stringify(path))
})
