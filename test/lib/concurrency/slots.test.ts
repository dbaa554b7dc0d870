import t from 'tap'
import { Slots } from '../../../lib/concurrency/slots.js'

t.test('a freed slot is reused', async (t) => {
  const slots = new Slots<{ name: string }>()
  const first = slots.add({ name: 'first' })
  const second = slots.add({ name: 'second' })
  t.not(first, second)
  slots.delete(first)
  t.equal(slots.size, 1)
  t.equal(slots.add({ name: 'third' }), first)
  t.same([...slots], [{ name: 'third' }, { name: 'second' }])
})

t.test('the table is empty after every slot is freed', async (t) => {
  const slots = new Slots<object>()
  const taken = Array.from({ length: 100 }, () => slots.add({}))
  t.equal(slots.size, 100)
  for (const slot of taken) slots.delete(slot)
  t.equal(slots.size, 0)
  t.same([...slots], [])
})
