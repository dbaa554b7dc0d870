/** The order of registration that follows from declared dependencies. */
import t from 'tap'
import { sortPlugins } from '../../../lib/plugin/group.js'
import { groups } from '../../../lib/server.js'

interface Declared {
  readonly dependencies?: string[]
  readonly after?: string[]
  readonly routeDependencies?: string[]
  readonly observesRoutes?: boolean
}

function sorted (plugins: Readonly<Record<string, Declared>>): string[] {
  const entries = Object.entries(plugins).map(([name, { dependencies = [], after = [], routeDependencies, observesRoutes = false }]) => ({
    order: {
      name,
      dependencies,
      after,
      routeDependencies: routeDependencies ?? [],
      optional: [],
      observesRoutes,
      hasEndpoints: routeDependencies !== undefined
    }
  }))
  return sortPlugins(entries).map(({ order }) => order.name)
}

t.test('plugins come after their dependencies, and independent ones keep their order', async (t) => {
  t.strictSame(sorted({ c: { dependencies: ['b'] }, a: {}, b: { after: ['a'] }, d: {} }), ['a', 'b', 'c', 'd'])
  t.strictSame(sorted({ b: {}, a: {} }), ['b', 'a'])
  t.strictSame(sorted({ a: { after: ['absent'] } }), ['a'], 'a missing plugin delays nothing')
})

t.test('endpoints come after the plugins that act on routes', async (t) => {
  t.strictSame(sorted({ list: { routeDependencies: [] }, service: {}, guard: { observesRoutes: true, dependencies: ['service'] } }), [
    'service',
    'guard',
    'list'
  ])
})

t.test('plugins with circular dependencies are named', async (t) => {
  t.throws(() => sorted({ a: { dependencies: ['b'] }, b: { after: ['a'] }, c: {} }), {
    message: 'these plugins depend on each other: a, b'
  })
})

t.test("a server's plugins have one order", async (t) => {
  const loaded = await Promise.all(Object.values(groups).map(async ({ load }) => ({ order: (await load()).order })))
  const order = sortPlugins(loaded).map(({ order }) => order.name)
  t.comment(order.join(', '))
  t.strictSame(order.toSorted(), Object.keys(groups).toSorted(), 'each entry has the name of its plugin')
  for (const { order: { name, dependencies, routeDependencies, after } } of loaded) {
    for (const earlier of [...dependencies, ...routeDependencies]) {
      t.ok(order.indexOf(earlier) !== -1 && order.indexOf(earlier) < order.indexOf(name), `${earlier} before ${name}`)
    }
    for (const earlier of after) t.ok(order.indexOf(earlier) < order.indexOf(name), `${earlier} before ${name}`)
  }
})
