import t from 'tap'
import { createMemoryStore } from '../../../plugins/rate-limit/store.js'

t.test('a window begins with the first request and ends after its time', async (t) => {
  const store = createMemoryStore()
  t.match(store.take('acme', '', 1000, 5000), { count: 1, resetAt: 6000 })
  t.match(store.take('acme', '', 1000, 5999), { count: 2, resetAt: 6000 })
  t.match(store.take('acme', '', 1000, 6000), { count: 1, resetAt: 7000 })
})

t.test('clients and buckets are counted apart', async (t) => {
  const store = createMemoryStore()
  for (let count = 1; count <= 3; count++) {
    t.match(store.take('acme', 'a', 1000, 0), { count })
    t.match(store.take('globex', 'a', 1000, 0), { count })
    t.match(store.take('acme', '', 1000, 0), { count })
  }
})

t.test('a request is given back to its own window only', async (t) => {
  const store = createMemoryStore()
  store.take('acme', 'a', 1000, 0)
  store.take('acme', 'a', 1000, 0)
  store.giveBack('acme', 'a', 1000)
  t.match(store.take('acme', 'a', 1000, 0), { count: 2 })
  store.giveBack('acme', 'a', 999)
  store.giveBack('globex', 'a', 1000)
  t.match(store.take('acme', 'a', 1000, 0), { count: 3 })
})

t.test('a flood of clients is bounded, and does not make one in use be forgotten', async (t) => {
  const store = createMemoryStore(1000)
  store.take('idle', '', 60_000, 0)
  for (let count = 1; count <= 100_000; count++) {
    store.take(`client ${count}`, '', 60_000, 0)
    if (count % 100 === 0) t.match(store.take('busy', '', 60_000, 0), { count: count / 100 })
  }
  t.match(store.take('idle', '', 60_000, 0), { count: 1 }, 'the oldest were forgotten')
})
