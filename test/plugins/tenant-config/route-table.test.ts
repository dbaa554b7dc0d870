/** The match of a tenant's routes: the same as by Fastify's router. */
import createRouter from 'find-my-way'
import { test } from 'tap'
import { parsePath, shapeOf } from '../../../lib/document/reserved.js'
import { boundsOf, keyOf, maxPathLength, RouteTable } from '../../../plugins/tenant-config/route-table.js'

const words = ['a', 'b', 'ab', 'A', 'list', 'list-1', '~x', ':p', ':q', ':id', ':constructor']
const written = [
  'a',
  'b',
  'ab',
  'A',
  'list',
  'list-1',
  'lis',
  '~x',
  '%7Ex',
  '%61',
  '',
  ':',
  ':p',
  '*',
  '#',
  'a#b',
  'a%23',
  'a%2Fb',
  '%2f',
  'a%252Fb',
  '%25',
  '%2561',
  '%3A',
  '%3a',
  '%c3%a4',
  'ä',
  'a b',
  'a;b',
  '%00',
  '.',
  '..',
  '1',
  'x'.repeat(2048),
  'x'.repeat(2049),
  '%61'.repeat(2048),
  '%2F'.repeat(2049)
]

test("a request matches the same route and parameters as in Fastify's router", (t) => {
  let seed = 7
  const draw = <Item>(items: readonly Item[]): Item => {
    seed = (seed * 48_271) % 2_147_483_647
    return items[seed % items.length]!
  }
  const pathOf = (from: readonly string[]) => `/${Array.from({ length: draw([1, 1, 2, 2, 3, 4]) }, () => draw(from)).join('/')}`
  let met = 0
  for (let round = 0; round < 400; round++) {
    const router = createRouter({ maxParamLength: 2048 })
    const table = new RouteTable<string>()
    const known = new Set<string>()
    for (let count = draw([1, 3, 10, 30]); count > 0; count--) {
      const path = draw([0, 1, 2, 3, 4, 5, 6, 7]) === 0 ? '/' : pathOf(words)
      const method = draw(['GET', 'GET', 'POST'] as const)
      const segments = parsePath(path)
      if (typeof segments === 'string' || known.has(method + shapeOf(segments))) continue
      known.add(method + shapeOf(segments))
      router.on(method, path, () => {}, path)
      table.add(method, path, path)
    }
    for (let request = 0; request < 60; request++) {
      const method = draw(['GET', 'GET', 'POST', 'PUT'] as const)
      const path = draw(['', '', '', 'http://host', 'HTTPS://host:1']) + draw([pathOf(written), pathOf(words), '/'])
      const expected = router.find(method, path)
      const found = table.find(method, path)
      if (
        expected === null
          ? found !== null
          : found?.value !== expected.store || JSON.stringify(found?.params) !== JSON.stringify(expected.params)
      ) {
        t.fail(`${method} ${path.slice(0, 200)}`, {
          found,
          expected: expected && { store: expected.store, params: expected.params },
          routes: [...known]
        })
      }
      if (found !== null) met++
    }
  }
  t.ok(met > 4000, `${met} requests matched a route`)
  t.end()
})

test('an invalid path or address matches no route', (t) => {
  const table = new RouteTable<string>()
  for (const path of ['/', '/:a', '/:a/:b', '/:a/:b/:c', '/:a/:b/:c/:d']) table.add('GET', path, path)
  for (const path of ['', '*', 'a', 'ftp://host/a', 'http://', 'http://host/#/a', '/%', '/%ff', '/a/%c0%ae']) {
    t.equal(table.find('GET', path), null, path)
  }
  t.end()
})

test('parameters can have any name, and nothing inherited', (t) => {
  const table = new RouteTable<string>()
  table.add('GET', '/:__proto__/:constructor', 'route')
  const params = table.find('GET', '/a/b')?.params ?? {}
  t.strictSame(Object.entries(params), [['__proto__', 'a'], ['constructor', 'b']])
  t.equal(params['toString'], undefined)
  t.end()
})

test('a long path is matched with short keys, however many forms the routes have', (t) => {
  const table = new RouteTable<string>()
  const forms: string[] = []
  for (let number = 0; number < 500; number++) {
    const form = number.toString(2).padStart(9, '0').replaceAll('0', '/a').replaceAll('1', '/:p')
      .replace(/:p/g, (_, at: number) => `:p${at}`)
    const path = `${form}/${Array.from({ length: 22 }, () => 'a').join('/')}`
    table.add('GET', path, form)
    forms.push(path.slice(1).split('/').map((segment) => segment.startsWith(':') ? '1' : '0').join(''))
  }
  for (const path of [`${'/a'.repeat(30)}/b`, `${'/a'.repeat(30)}/${'b'.repeat(12_000)}`, `/${'b'.repeat(12_000)}${'/a'.repeat(30)}`]) {
    t.equal(table.find('GET', path), null)
    const lengths = forms.map((form) => keyOf(path, boundsOf(path), form)?.length ?? 0)
    t.ok(Math.max(...lengths) <= maxPathLength, `the longest key has ${Math.max(...lengths)} characters`)
  }
  t.end()
})
