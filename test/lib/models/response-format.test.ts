/** The schemas of callers: their values as in the metaschema of draft 7, and in linear time. */
import { Ajv } from 'ajv'
import t from 'tap'
import { compileResponseFormat } from '../../../lib/models/response-format.js'
import { keywords } from '../../../lib/models/response-keywords.js'

const distinct = (count: number) => Array.from({ length: count }, (_, index) => ({ '': index }))
const refusal = (schema: Readonly<Record<string, unknown>>): string => {
  try {
    compileResponseFormat(schema)
    return ''
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

t.test('the values of keywords are those of the metaschema', async (t) => {
  const meta = new Ajv({ strict: false })
  const values = [
    null, true, 0, 1, -1, 1.5, '', 'x', 'string', 'date', [], ['x'], ['x', 'x'], ['string', 'null'], ['string', 'string'], ['strin'], [1, 1],
    [{ a: 1 }, { a: 1 }], [{}], [true], [null], {}, { a: 1 }, { a: true }, { a: { type: 'strin' } }, { a: ['x'] }, { a: ['x', 'x'] }, { type: 'null' },
    { type: 'strin' }, [{ type: 'strin' }], { a: {}, b: null }
  ]
  /** Not in draft 7, or limited further. */
  const further = ['deprecated', 'writeOnly', 'nullable', 'contentSchema', '$defs', 'format']
  for (const keyword of keywords.keys()) {
    if (further.includes(keyword)) continue
    for (const value of values) {
      const schema = { type: 'object', properties: { a: { [keyword]: value } } }
      const expected = meta.validateSchema(schema) === true
      const message = refusal(schema)
      // A member of a schema, which ajv ignores.
      const hasUnknown = /the keyword `a` is not supported/.test(message)
      if (!hasUnknown) t.equal(message === '', expected, `${keyword}: ${JSON.stringify(value)} ${message}`)
    }
  }
  for (const keyword of further) t.match(refusal({ type: 'object', not: { [keyword]: 5 } }), /: expected /, keyword)
  t.match(refusal({ type: 'object', properties: { a: { type: 'strin' } } }), /the value "strin" of the keyword `type` .*: expected array, boolean/)
})

t.test('the values of references are schemas', async (t) => {
  const referring = (definition: unknown, more = {}) => ({ type: 'object', items: { $ref: '#/$defs/a', ...more }, $defs: { a: definition } })
  for (const definition of [true, {}, { type: 'string' }]) t.equal(refusal(referring(definition)), '')
  for (const definition of [5, null, ['x'], [{}]]) t.match(refusal(referring(definition)), /is not a schema/)
  t.equal(refusal(referring({}, { description: 'x', title: 'y' })), '')
  t.match(refusal(referring({}, { description: 5 })), /the value 5 of the keyword `description`/)
})

t.test('a long list of values is compared in linear time', async (t) => {
  const $defs = { a: { enum: distinct(1000) } }
  const { keys } = Object
  let reads = 0
  // Not `t.capture`, which keeps a stack of each call.
  Reflect.set(Object, 'keys', (value: object) => {
    reads++
    return keys(value)
  })
  t.teardown(() => Reflect.set(Object, 'keys', keys))
  t.equal(refusal({ type: 'object', properties: { x: { $ref: '#/$defs/a' }, y: { $ref: '#/$defs/a' } }, $defs }), '')
  t.ok(reads < 10_000, `the names of ${reads} objects were read`)
})

t.test('a long chain of references is refused', async (t) => {
  const $defs = Object.fromEntries(Array.from({ length: 500 }, (_, index) => [`d${index}`, { $ref: `#/$defs/d${index + 1}` }]))
  const allOf = Array(400).fill({ $ref: '#/$defs/d0' })
  t.match(refusal({ type: 'object', allOf, $defs: { ...$defs, d500: true } }), /more than 65536 characters after references/)
})
