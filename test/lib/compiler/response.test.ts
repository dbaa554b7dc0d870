import t from 'tap'
import { compileResponse } from '../../../lib/compiler/response.js'
import { unknownResult } from '../../../lib/expressions/known-members.js'
import { noScope } from '../../../lib/expressions/no-scope.js'
import type { ResultForm } from '../../../lib/expressions/result.js'
import type { TemplateContext } from '../../../lib/expressions/template.js'
import type { Scope } from '../../../lib/expressions/types.js'
import { FaultList } from '../../../lib/schema/faults.js'

function context (more: Partial<TemplateContext> = {}): TemplateContext {
  return {
    faults: new FaultList(),
    sources: new Set(['env', 'body', 'params', 'query', 'auth', 'tenant', 'results', 'now', 'uuid']),
    env: {},
    ...more
  }
}

function filtered (schema: unknown, result: unknown, form: ResultForm = 'record'): unknown {
  const within = context()
  const response = compileResponse(schema, '', within)
  within.faults.throwIfAny()
  return response?.kind === 'schema' ? JSON.parse(response.serialize(result, form)) : 'no schema'
}

/** The body of a mapping; its text must equal that of the evaluated value. */
function mapped (mapping: unknown, scope: Partial<Scope> = {}): unknown {
  const within = context()
  const response = compileResponse(mapping, '', within)
  within.faults.throwIfAny()
  if (response?.kind !== 'mapping') return 'no mapping'
  const at = { ...noScope, ...scope }
  const text = response.serialize(at)
  const expected = JSON.stringify(response.value.evaluate(at) ?? null)
  if (text !== expected) throw new Error(`written ${text}, evaluated ${expected}`)
  return JSON.parse(text)
}

function faults (response: unknown, more: Partial<TemplateContext> = {}): string[] {
  const within = context(more)
  const compiled = compileResponse(response, '/response', within)
  if (within.faults.faults.length > 0 && compiled !== null) return ['compiled despite faults']
  return within.faults.faults.map(({ pointer, message, suggestion }) =>
    `${pointer} ${message}${suggestion === undefined ? '' : ` [${suggestion}]`}`
  )
}

const record = { type: 'object', properties: { id: { type: 'integer' }, title: { type: 'string' } } }

t.test('a response contains only members that its schema declares', async (t) => {
  t.strictSame(filtered(record, { id: 1, title: 'a', secret: 's' }), { id: 1, title: 'a' })
  t.strictSame(filtered(record, { id: 1 }), { id: 1 }, 'missing members are not added')
  t.strictSame(filtered(record, { id: null, title: null }), { id: null, title: null }, 'null stays null')
  t.strictSame(filtered(record, { id: 'x', title: 5 }), { id: 'x', title: 5 }, 'a value of another type does not fail')
  t.strictSame(
    filtered({ type: 'object', properties: { author: record, tags: { type: 'array', items: record }, any: {} } }, {
      author: { id: 1, secret: 's' },
      tags: [{ id: 2, secret: 's' }, null],
      any: { deep: [1] },
      secret: 's'
    }),
    { author: { id: 1 }, tags: [{ id: 2 }, null], any: { deep: [1] } }
  )
  t.strictSame(filtered({ ...record, additionalProperties: true }, { id: 1, more: 2 }), { id: 1, more: 2 })
  t.strictSame(filtered({ type: ['object', 'null'], properties: record.properties }, null), null)
  t.strictSame(filtered({ type: 'object', properties: { constructor: {} } }, { id: 1 }), {}, 'inherited members are left out')
})

t.test('a schema of a whole list, of an array or of a record fits a page', async (t) => {
  const page = { data: [{ id: 1, secret: 's' }, { id: 2, secret: 's' }], pagination: { limit: 20, offset: 0, total: 2 } }
  const expected = { data: [{ id: 1 }, { id: 2 }], pagination: page.pagination }
  t.strictSame(filtered({ type: 'object', properties: { data: { type: 'array', items: record } } }, page, 'wrapped'), {
    data: expected.data
  }, 'the schema describes the whole response')
  t.strictSame(
    filtered({ type: 'object', properties: { data: { type: 'array', items: record }, pagination: { type: 'object' } } }, page, 'wrapped'),
    expected
  )
  t.strictSame(filtered({ type: 'array', items: record }, page, 'wrapped'), expected)
  t.strictSame(filtered(record, page, 'wrapped'), expected)
  t.strictSame(filtered(record, { data: page.data }, 'wrapped'), { data: expected.data }, 'a bulk insert returns records')
  t.strictSame(filtered({ type: 'array', items: record }, { id: 1, secret: 's' }), { id: 1 })
  t.strictSame(filtered(record, { data: ['not', 'an', 'envelope'], id: 1 }), { id: 1 }, 'a record may have a column named data')
  t.strictSame(filtered(record, { data: [1] }), {}, 'but other columns are left out')
})

t.test('a mapping is the body, and can read results', async (t) => {
  const results = { post: { id: 1, tags: ['a'] }, posts: { data: [{ id: 5 }], pagination: { total: 9 } } }
  t.strictSame(
    mapped({
      ok: true,
      n: 1,
      post: '{{results.post}}',
      total: '{{results.posts.pagination.total}}',
      gone: '{{results.post.gone}}',
      deep: { list: ['{{results.post.gone}}', 'x {{results.post.id}}', 2], last: null }
    }, { results }),
    { ok: true, n: 1, post: results.post, total: 9, deep: { list: [null, 'x 1', 2], last: null } }
  )
  t.strictSame(mapped({ a: '{{params.a}}', b: 1, c: 2, d: '{{params.d}}' }, { params: { d: 4 } }), { b: 1, c: 2, d: 4 })
  t.strictSame(mapped('{{params.gone}}'), null)
  t.strictSame(mapped(['{{params.gone}}', [], {}]), [null, [], {}])
  t.strictSame(
    mapped({ type: 'greeting', text: 'Hi {{params.n}}' }, { params: { n: 'x' } }),
    { type: 'greeting', text: 'Hi x' },
    '`type` alone is not a schema'
  )
  t.strictSame(mapped({ type: 'Feature', properties: { id: '{{params.n}}' } }, { params: { n: 7 } }), {
    type: 'Feature',
    properties: { id: 7 }
  })
  t.strictSame(mapped({ fixed: ['a', 1] }), { fixed: ['a', 1] })
})

t.test('every text is escaped as JSON requires', async (t) => {
  for (
    const text of [
      '',
      'plain',
      '"',
      '\\',
      '\n\t\u0000\u001f',
      '\u2028',
      '\ud800',
      '😀',
      'é',
      'x'.repeat(100),
      `${'x'.repeat(70)}"`,
      '</script>'
    ]
  ) {
    t.strictSame(mapped({ a: '{{params.a}}', b: '-{{params.a}}-' }, { params: { a: text } }), { a: text, b: `-${text}-` })
  }
})

t.test('a fault of a response names its place, and the nearest known word', async (t) => {
  t.match(faults({ type: 'object', properties: { a: { typ: 'string' } } }), [/^\/response\/properties\/a\/typ .*\[type\]$/])
  t.match(faults({ type: 'object', properties: { a: { type: 'strng' } } }), [/^\/response\/properties\/a\/type .*\[string\]$/])
  t.match(faults({ type: 'objekt', properties: {} }), [/^\/response\/type .*\[object\]$/])
  for (const properties of [{}, { properties: { a: { type: 'string' } } }]) {
    t.match(faults({ type: 'object', properties: { b: { type: 'object', ...properties, additionalProperties: { $ref: 'http://x/' } } } }), [
      /^\/response\/properties\/b\/additionalProperties\/\$ref a response schema does not have this member/
    ])
  }
  t.match(faults({ type: 'object', properties: {}, additionalProperties: 'yes' }), [/^\/response\/additionalProperties .*must be an object/])
  t.strictSame(faults({ type: 'object', properties: {}, additionalProperties: { type: 'string' } }), [])
  t.match(faults({ a: '{{secret:KEY}}' }, { sources: new Set(['secret']) }), [/cannot be used in a response/])
  t.match(faults({ type: 'object', properties: { a: { description: 'x {{ secret.KEY }}' } } }), [/\/description a secret cannot be used/])
  t.match(faults({ a: '{{results.b}}' }, { results: new Map([['a', unknownResult]]) }), [/no earlier query/])
  t.match(faults(JSON.parse('{"type": "object", "properties": {"__proto__": {}}}')), [/__proto__/])
})
