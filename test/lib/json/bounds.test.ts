import t from 'tap'
import { jsonExcess, maxJsonItems, maxJsonKeys, maxJsonMembers, maxStoredKeys, parseBounded, storedExcess } from '../../../lib/json/bounds.js'
import { parseResult } from '../../../lib/json/parse.js'

const members = (count: number, prefix = 'key') => `{${Array.from({ length: count }, (_, index) => `"${prefix}${index}":1`).join(',')}}`
// Keys are counted by 32-bit hashes, and two of 50,000 keys may collide.
const justOver = (bound: number) => Math.ceil(bound * 1.01)
const list = (count: number, item: (index: number) => string) => `[${Array.from({ length: count }, (_, index) => item(index)).join(',')}]`

t.test('different keys are counted in one object, in many objects, and per order', async (t) => {
  t.equal(jsonExcess(members(maxJsonKeys)), null)
  t.match(jsonExcess(members(justOver(maxJsonKeys))), /more than 10,000 different keys/)
  t.equal(jsonExcess(list(maxJsonKeys, (index) => `{"key${index}":1}`)), null)
  t.match(jsonExcess(list(justOver(maxJsonKeys), (index) => `{"key${index}":1}`)), /different keys/)
  t.match(jsonExcess(list(200, (index) => members(100, `${index}-`))), /different keys/)
  const rotated = (by: number) => `{${Array.from({ length: 30 }, (_, index) => `"column_${(index * (by + 1)) % 31}":${by}`).join(',')}}`
  t.equal(jsonExcess(list(3000, () => rotated(0))), null, 'the same keys in one order count once')
  t.equal(jsonExcess(list(3000, (index) => rotated(index % 30))), null, 'in 30 orders, 30 times')
  const swapped = (index: number) =>
    `{${
      index.toString(2).padStart(14, '0').split('').map((bit, place) => bit === '0' ? `"a${place}":1,"b${place}":1` : `"b${place}":1,"a${place}":1`).join(',')
    }}`
  t.match(jsonExcess(list(3000, swapped)), /different keys/, 'few keys in many orders')
})

t.test('a bulk insert of 2,000 records of 20 columns is within the bounds', async (t) => {
  const record = JSON.stringify(
    Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`column_${index}`, 'a "value", {with} [brackets]: and \\ ']))
  )
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

t.test('database responses have a bound of different keys, and lists of rows stay below it', async (t) => {
  t.equal(storedExcess(members(maxStoredKeys)), null)
  t.match(storedExcess(members(justOver(maxStoredKeys))), /more than 50,000 different keys/)
  t.match(storedExcess(list(justOver(maxStoredKeys), (index) => `{"${index.toString(36)}":1}`)), /different keys/, 'with short names')
  const optional = (index: number) =>
    Array.from({ length: 20 }, (_, place) => (index * 7919 >> place) % 2 === 0 ? `"field_${place}":${index}` : `"other_${place}":null`)
      .join(',')
  t.equal(storedExcess(list(2000, (index) => `{"id":${index},"data":{${optional(index)}}}`)), null, '2,000 rows of 20 optional fields')
  t.equal(
    storedExcess(list(20_000, (index) => `{"id":${index},"name":"a","at":null,"open":true,"count":1,"total":1.5,"tags":[1,2]}`)),
    null,
    '20,000 rows of a table'
  )
  t.equal(storedExcess(`${'['.repeat(200)}${'1,'.repeat(200_000)}1${']'.repeat(200)}`), null, 'deeper than a body may be')
  t.match(storedExcess(`${'['.repeat(300_000)}`), /deeper than 1000 levels/)
  t.throws(() => parseResult(members(justOver(maxStoredKeys))), {
    code: 'TENANTRY_ANSWER_TOO_LARGE',
    statusCode: 400,
    message: /request fewer records or fields/
  })
  t.same(parseResult('[12345678901234567890]'), [12345678901234567890n])
})

t.test('text that is not JSON is left to the parser', async (t) => {
  for (const text of [']'.repeat(60_000), '"'.repeat(60_001), `${','.repeat(60_000)}{`]) {
    t.equal(jsonExcess(text), null)
    t.throws(() => parseBounded(text), SyntaxError)
  }
  t.throws(() => parseBounded(members(justOver(maxJsonKeys))), /the JSON has more than 10,000 different keys/)
})
