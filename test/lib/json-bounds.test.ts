import t from 'tap'
import { jsonExcess, maxJsonItems, maxJsonKeys, maxJsonMembers, parseBounded } from '../../lib/json-bounds.js'

const members = (count: number, prefix = 'key') => `{${Array.from({ length: count }, (_, index) => `"${prefix}${index}":1`).join(',')}}`
const list = (count: number, item: (index: number) => string) => `[${Array.from({ length: count }, (_, index) => item(index)).join(',')}]`

t.test('different keys are counted in one object, in many, and in their order', async (t) => {
  t.equal(jsonExcess(members(maxJsonKeys)), null)
  t.match(jsonExcess(members(maxJsonKeys + 1)), /more than 10,000 different keys/)
  t.equal(jsonExcess(list(maxJsonKeys, (index) => `{"key${index}":1}`)), null)
  t.match(jsonExcess(list(maxJsonKeys + 1, (index) => `{"key${index}":1}`)), /different keys/)
  t.match(jsonExcess(list(200, (index) => members(100, `${index}-`))), /different keys/)
  const rotated = (by: number) => `{${Array.from({ length: 30 }, (_, index) => `"column_${(index * (by + 1)) % 31}":${by}`).join(',')}}`
  t.equal(jsonExcess(list(3000, () => rotated(0))), null, 'the same keys in one order count once')
  t.equal(jsonExcess(list(3000, (index) => rotated(index % 30))), null, 'in 30 orders, 30 times')
  const swapped = (index: number) => `{${index.toString(2).padStart(14, '0').split('').map((bit, place) => bit === '0' ? `"a${place}":1,"b${place}":1` : `"b${place}":1,"a${place}":1`).join(',')}}`
  t.match(jsonExcess(list(3000, swapped)), /different keys/, 'few keys in many orders')
})

t.test('a bulk insert of 2,000 records of 20 columns is within the bounds', async (t) => {
  const record = JSON.stringify(Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`column_${index}`, 'a "value", {with} [brackets]: and \\ '])))
  t.equal(jsonExcess(list(2000, () => record)), null)
  t.equal(jsonExcess(JSON.stringify({ text: '{"a":1},'.repeat(200_000) })), null, 'text is not counted')
})

t.test('members, objects and items are counted', async (t) => {
  t.equal(jsonExcess(list(maxJsonMembers - 1, () => '{}')), null)
  t.match(jsonExcess(list(maxJsonMembers, () => '{}')), /more than 100,000 members/)
  t.match(jsonExcess(list(maxJsonMembers / 2, () => '{"a":1}')), /more than 100,000 members/)
  t.equal(jsonExcess(list(maxJsonItems, () => '1')), null)
  t.match(jsonExcess(list(maxJsonItems + 2, () => '1')), /more than 500,000 items/)
})

t.test('text that is not JSON is left to the parser', async (t) => {
  for (const text of [']'.repeat(60_000), '"'.repeat(60_001), `${','.repeat(60_000)}{`]) {
    t.equal(jsonExcess(text), null)
    t.throws(() => parseBounded(text), SyntaxError)
  }
  t.throws(() => parseBounded(members(maxJsonKeys + 1)), /the JSON has more than 10,000 different keys/)
})
