/** A value at the bound is accepted, one more is rejected with the bound. */
import t from 'tap'
import { faultsOf, route } from './documents.js'

const list = <Item>(length: number, item: (index: number) => Item) => Array.from({ length }, (_, index) => item(index))
const small = (index: number) => ({ path: `/r${index}`, method: 'get', response: 1 })
const nested = (levels: number): unknown => levels === 0 ? 1 : { a: nested(levels - 1) }
/** A route with a response of the given size in bytes as JSON. */
const sized = (bytes: number, index = 0) => {
  const rest = JSON.stringify({ ...small(index), response: '' }).length
  return { ...small(index), response: 'x'.repeat(bytes - rest) }
}

t.test('each bound is enforced', async (t) => {
  const whole = (bytes: number) => {
    const routes = list(16, (index) => sized(65_000, index))
    const missing = bytes - JSON.stringify({ routes, settings: { a: '' } }).length
    return { routes, settings: { a: 'x'.repeat(missing) } }
  }
  const cases: readonly (readonly [string, unknown, unknown, RegExp])[] = [
    ['routes', { routes: list(500, small) }, { routes: list(501, small) }, /^\/routes: expected at most 500 items/],
    ['bytes of the document', whole(1_048_576), whole(1_048_577), /^\/: the document can have at most 1,048,576 bytes/],
    ['bytes of a route', { routes: [sized(65_536)] }, { routes: [sized(65_537)] }, /^\/routes\/0: a route can have at most 65,536 bytes/],
    [
      'bytes of settings',
      { settings: { a: 'x'.repeat(65_528) } },
      { settings: { a: 'é'.repeat(32_765) } },
      /^\/settings: the section `settings` can have at most 65,536 bytes/
    ],
    [
      'bytes of settings beside many braces',
      { settings: { a: 'x', b: '{{'.repeat(10_001) } },
      { settings: { a: 'x'.repeat(65_000), b: '{{'.repeat(10_001) } },
      /^\/settings: the section `settings` can have at most 65,536 bytes/
    ],
    [
      'characters of settings',
      { settings: { a: '\u0001😀' } },
      { settings: { a: [{ 'b\ud800': 1 }] } },
      /^\/settings: the section `settings` must not contain the character NUL/
    ],
    ['characters of a route', { routes: [small(0)] }, {
      routes: [{ ...small(0), response: 'a\0' }]
    }, /^\/routes\/0: a route must not contain the character NUL/],
    [
      'levels of settings',
      { settings: nested(16) },
      { settings: nested(17) },
      /^\/settings: the section `settings` can have at most 16 levels/
    ],
    ['values of a route', { routes: [{ ...small(0), response: list(1996, () => 1) }] }, {
      routes: [{ ...small(0), response: list(1997, () => 1) }]
    }, /^\/routes\/0: a route can have at most 2,000 values/],
    ['templates of a route', { routes: [{ ...small(0), response: list(500, () => '{{query.a}}') }] }, {
      routes: [{ ...small(0), response: '{{query.a}}'.repeat(501) }]
    }, /^\/routes\/0: a route can have at most 500 templates/],
    ['templates of the document', { routes: list(20, (index) => ({ ...small(index), response: '{{query.a}}'.repeat(500) })) }, {
      routes: list(21, (index) => ({ ...small(index), response: '{{query.a}}'.repeat(500) }))
    }, /^\/: the document can have at most 10,000 templates/],
    ['queries of a route', { routes: [{ ...route, queries: list(20, (index) => ({ ...route.queries[0], alias: `a${index}` })) }] }, {
      routes: [{ ...route, queries: list(21, (index) => ({ ...route.queries[0], alias: `a${index}` })) }]
    }, /^\/routes\/0\/queries: expected at most 20 items/],
    ['permissions', { routes: [{ ...route, requiredPermissions: list(100, () => 'p'.repeat(128)) }] }, {
      routes: [{ ...route, requiredPermissions: list(101, () => 'p') }]
    }, /^\/routes\/0\/requiredPermissions: expected at most 100 items/],
    [
      'letters of a permission',
      {},
      { routes: [{ ...route, requiredPermissions: ['p'.repeat(129)] }] },
      /^\/routes\/0\/requiredPermissions\/0: expected at most 128 characters/
    ],
    [
      'tags',
      { routes: [{ ...route, tags: list(50, () => 't') }] },
      { routes: [{ ...route, tags: list(51, () => 't') }] },
      /^\/routes\/0\/tags: expected at most 50 items/
    ],
    ['a description', { routes: [{ ...route, description: 'd'.repeat(10_000) }] }, {
      routes: [{ ...route, description: 'd'.repeat(10_001) }]
    }, /^\/routes\/0\/description: expected at most 10000 characters/],
    [
      'a path',
      { routes: [{ ...route, path: `/${'p'.repeat(499)}` }] },
      { routes: [{ ...route, path: `/${'p'.repeat(500)}` }] },
      /^\/routes\/0\/path: expected at most 500 characters/
    ],
    ['parameters of a path', { routes: [{ ...route, path: list(16, (index) => `/:p${index}`).join('') }] }, {
      routes: [{ ...route, path: list(17, (index) => `/:p${index}`).join('') }]
    }, /^\/routes\/0\/path: a path can have at most 16 parameters, but this one has 17/],
    [
      'segments of a path',
      { routes: [{ ...route, path: '/a'.repeat(32) }] },
      { routes: [{ ...route, path: '/a'.repeat(33) }] },
      /^\/routes\/0\/path: a path can have at most 32 segments, but this one has 33/
    ],
    [
      'a long section',
      {},
      { rateLimit: { enabled: true, perEndpoint: Object.fromEntries(list(3000, (index) => [`/a${index}`, {}])) } },
      /^\/rateLimit: a section can have at most 3,000 values/
    ],
    ['levels of a route', {}, { routes: [{ ...route, response: nested(62) }] }, /^\/routes\/0: a route can have at most 62 levels/]
  ]
  for (const [label, fits, over, fault] of cases) {
    t.strictSame(await faultsOf(fits), [], `${label}: at the bound`)
    t.match((await faultsOf(over))[0], fault, `${label}: one more`)
  }
})

t.test('a value far above a bound is rejected without being read', async (t) => {
  const around: Record<string, unknown> = {}
  around.self = [around, around]
  const documents: unknown[] = [
    { routes: [new Array(4_000_000_000)] },
    { settings: new Array(4_000_000_000) },
    new Array(4_000_000_000),
    { routes: new Array(4_000_000_000) },
    { settings: around },
    around,
    { settings: 'x'.repeat(10_000_000) },
    { routes: [list(300_000, () => [])] },
    Object.fromEntries(list(50_000, (index) => [`x${index}`, 1]))
  ]
  for (const document of documents) t.ok((await faultsOf(document)).length > 0)
  t.match(
    await faultsOf({ routes: new Array(3) }),
    [/^\/routes\/0: /, /^\/routes\/1: /, /^\/routes\/2: /],
    'holes of an array are invalid items'
  )
})
