import t from 'tap'
import { createWarned } from '../../../lib/cache/warned.js'

t.test('only the first warning of a minute about a subject is logged', async (t) => {
  const warned = createWarned()
  t.equal(warned.isFirst('acme', 'a key'), true)
  t.equal(warned.isFirst('acme', 'a key'), false)
  t.same([1, 2].map(() => warned.levelOf('acme', 'a place')), ['warn', 'debug'])
  t.equal(warned.isFirst('globex', 'a key'), true, "a tenant's warnings do not hide those of another")
  t.equal(warned.isFirst('acme', 'another key'), true)
  t.equal(warned.isFirst('acme a', 'key'), true, 'parts are kept apart')
  t.equal(createWarned().isFirst('acme', 'a key'), true, 'each guard has its own subjects')
})
