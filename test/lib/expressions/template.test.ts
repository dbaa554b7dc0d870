/* eslint-disable no-template-curly-in-string -- the legacy form of environment settings is what these strings test */
import t from 'tap'
import { unknownResult } from '../../../lib/expressions/known-members.js'
import { compileValue, type TemplateContext } from '../../../lib/expressions/template.js'
import type { Scope } from '../../../lib/expressions/types.js'
import { FaultList } from '../../../lib/schema/faults.js'
import { scopeTenant } from '../../helpers/scope-tenant.js'

function context (more: Partial<TemplateContext> = {}): TemplateContext {
  return {
    faults: new FaultList(),
    sources: new Set(['env', 'body', 'params', 'query', 'headers', 'auth', 'tenant', 'results', 'now', 'uuid']),
    env: {},
    ...more
  }
}

function scope (more: Partial<Scope> = {}): Scope {
  return {
    body: undefined,
    params: {},
    query: {},
    headers: {},
    auth: null,
    tenant: null,
    secrets: new Map(),
    results: {},
    fullAccess: false,
    ...more
  }
}

function evaluate (value: unknown, at: Partial<Scope> = {}, more: Partial<TemplateContext> = {}): unknown {
  const within = context(more)
  const compiled = compileValue(value, '', within)
  within.faults.throwIfAny()
  return compiled.evaluate(scope(at))
}

function faults (value: unknown, more: Partial<TemplateContext> = {}): string[] {
  const within = context(more)
  compileValue(value, '/v', within)
  return within.faults.faults.map(({ pointer, message, suggestion }) =>
    `${pointer} ${message}${suggestion === undefined ? '' : ` [${suggestion}]`}`
  )
}

t.test('a value that is a single template keeps its type', async (t) => {
  const body = { id: 7, yes: true, none: null, list: [1, 2], nested: { a: { b: 'deep' } }, items: [{ id: 'first' }] }
  t.equal(evaluate('{{body.id}}', { body }), 7)
  t.equal(evaluate('{{ body.yes }}', { body }), true)
  t.equal(evaluate('{{body.none}}', { body }), null)
  t.equal(evaluate('{{body.list}}', { body }), body.list)
  t.equal(evaluate('{{body}}', { body }), body)
  t.equal(evaluate('{{body.nested.a.b}}', { body }), 'deep')
  t.equal(evaluate('{{body.items[0].id}}', { body }), 'first')
  t.equal(evaluate('{{body.items.0.id}}', { body }), 'first')
  t.equal(evaluate("{{body['nested'].a['b']}}", { body }), 'deep')
  t.equal(evaluate('{{body[1]}}', { body: ['a', 'b'] }), 'b')
})

t.test('templates can read every source of a request', async (t) => {
  const at: Partial<Scope> = {
    params: { id: 'p' },
    query: { q: 'q' },
    headers: { 'accept-language': 'de' },
    auth: { sub: 'user', tenant_id: 'acme' },
    tenant: scopeTenant('acme', { colour: { main: 'red' } }),
    results: { post: { data: [{ id: 3 }] } }
  }
  t.equal(evaluate('{{params.id}}', at), 'p')
  t.equal(evaluate('{{query.q}}', at), 'q')
  t.equal(evaluate('{{headers.Accept-Language}}', at), 'de', 'header names are case-insensitive')
  t.equal(evaluate('{{auth.tenant_id}}', at), 'acme')
  t.equal(evaluate('{{tenant.id}}', at), 'acme')
  t.equal(evaluate('{{tenant.config.colour.main}}', at), 'red')
  t.equal(evaluate('{{results.post.data[0].id}}', at), 3)
  t.equal(evaluate('{{auth.sub}}'), undefined, 'a caller without a token has no claims')
  t.equal(evaluate('{{tenant.id}}'), undefined)
  t.match(evaluate('{{now()}}'), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  t.match(evaluate('{{ uuid() }}'), /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  const identifier = compileValue('{{uuid()}}', '', context())
  t.not(identifier.evaluate(scope()), identifier.evaluate(scope()), 'each evaluation creates a new value')
})

t.test('inside a longer string a template becomes text', async (t) => {
  const body = { name: 'Ann', n: 0, no: false, none: null, list: [1, { a: 'b' }] }
  t.equal(evaluate('Hello {{body.name}}!', { body }), 'Hello Ann!')
  t.equal(evaluate('{{body.name}}{{body.n}}{{body.no}}', { body }), 'Ann0false')
  t.equal(evaluate('[{{body.none}}{{body.missing}}]', { body }), '[]')
  t.equal(evaluate('list: {{body.list}}', { body }), 'list: [1,{"a":"b"}]')
  t.equal(evaluate('a {{body.name}}', { body }), 'a Ann')
  t.equal(evaluate('${{body.n}}', { body }), '$0', 'a dollar sign before a template is text')
})

t.test('|| provides a default for missing, null and empty values; 0 and false stay', async (t) => {
  const query = { zero: 0, no: false, empty: '', none: null, word: 'w' }
  t.equal(evaluate('{{query.limit || 10}}', { query }), 10)
  t.equal(evaluate('{{query.none || -1.5e2}}', { query }), -150)
  t.equal(evaluate("{{query.empty || 'a \\'b\\''}}", { query }), "a 'b'")
  t.equal(evaluate('{{query.empty || "}}"}}', { query }), '}}', 'braces in a quoted string do not close the template')
  t.equal(evaluate('{{query.missing || true}}', { query }), true)
  t.equal(evaluate('{{query.missing || null}}', { query }), null)
  t.equal(evaluate("{{query.missing || ''}}", { query }), '')
  t.equal(evaluate('{{query.zero || 10}}', { query }), 0)
  t.equal(evaluate('{{query.no || true}}', { query }), false)
  t.equal(evaluate('{{query.a || query.b || query.word || 1}}', { query }), 'w')
  t.equal(evaluate('{{query.a||query.b}}', { query }), undefined)
  t.equal(evaluate('page {{query.page || 1}}', { query }), 'page 1')
})

t.test('a number as a default keeps every digit', async (t) => {
  t.equal(evaluate('{{query.after || 9007199254740993}}'), 9007199254740993n)
  t.equal(evaluate('{{query.after || -9007199254740993}}'), -9007199254740993n)
  t.equal(String(evaluate('{{query.rate || 0.1234567890123456789}}')), '0.1234567890123456789')
  t.equal(evaluate('after {{query.after || 9007199254740993}}'), 'after 9007199254740993')
  for (const [text, value] of [['9007199254740991', 9007199254740991], ['1.10', 1.1], ['1e3', 1000], ['1e999', Infinity]] as const) {
    t.equal(evaluate(`{{query.none || ${text}}}`), value, text)
  }
})

t.test('only own members can be read', async (t) => {
  const body = { text: 'abc', list: [1], made: Object.create({ inherited: 1 }) }
  for (
    const path of [
      'body.constructor',
      'body.__proto__',
      'body.toString',
      'body.list.length',
      'body.list.map',
      "body.list['length']",
      'body.text.length',
      'body.text[0]',
      'body.made.inherited',
      'body.list[1]',
      'body.list.00',
      'query.constructor',
      'params.__proto__',
      'auth.constructor',
      'headers.constructor',
      'results.__proto__'
    ]
  ) {
    t.equal(evaluate(`{{${path}}}`, { body, auth: { sub: 'a' } }), undefined, path)
  }
  t.equal(evaluate('{{body.length}}', { body: { length: 3 } }), 3, 'an object may have an own member with this name')
})

t.test("a caller's value is never parsed as a template", async (t) => {
  const body = { a: '{{auth.sub}}', b: '${HOME}' }
  t.equal(evaluate('{{body.a}}', { body, auth: { sub: 'x' } }), '{{auth.sub}}')
  t.equal(evaluate('{{body.b}} {{body.a}}', { body }, { env: { HOME: '/root' } }), '${HOME} {{auth.sub}}')
  t.equal(evaluate('{{env.EVIL}}', { body }, { env: { EVIL: '{{body.a}}' } }), '{{body.a}}', 'nor is a setting')
})

t.test('env is constant at compile time', async (t) => {
  const env = { NAME: 'value', EMPTY: '' }
  const compiled = compileValue(
    { a: '{{env.NAME}}', b: 'x-${NAME}', c: '{{env.EMPTY || 5}}', d: '{{env.NONE || env.NAME}}', e: '{{env.EMPTY}}' },
    '',
    context({ env })
  )
  t.equal(compiled.constant, true)
  t.strictSame(compiled.references, [])
  t.strictSame(compiled.evaluate(scope()), { a: 'value', b: 'x-value', c: 5, d: 'value', e: '' })
  t.match(faults('{{env.NONE}}'), [/setting NONE is not set/])
  t.match(faults('${NONE}'), [/setting NONE is not set/])
  t.match(faults('{{env.toString}}'), [/setting toString is not set/])
  t.match(faults('{{env}}'), [/env\.NAME/])
  t.equal(evaluate('costs ${5} and ${a-b}'), 'costs ${5} and ${a-b}', 'other uses of ${ are text')
})

t.test('objects and arrays compile deeply; members that resolve to nothing are left out', async (t) => {
  const value = { a: { b: ['{{body.x}}', '{{body.gone}}', 1] }, gone: '{{body.gone}}', none: '{{body.none}}', fixed: { deep: [1, 2] } }
  t.strictSame(evaluate(value, { body: { x: 'X', none: null } }), { a: { b: ['X', null, 1] }, none: null, fixed: { deep: [1, 2] } })
})

t.test('constants are folded and frozen, and do not share data with the document', async (t) => {
  const value = { list: [1, { a: 'b' }], text: 'plain' }
  const compiled = compileValue(value, '', context())
  const result = compiled.evaluate(scope())
  t.equal(compiled.constant, true)
  t.equal(compiled.evaluate(scope()), result, 'the same data each time')
  t.strictSame(result, value)
  t.not(result, value)
  t.ok(Object.isFrozen(result))
  t.throws(() => {
    if (Array.isArray(Object(result).list)) Object(result).list[1].a = 'c'
  }, TypeError)
  t.notOk(Object.isFrozen(value), "the caller's own data is not frozen")
})

t.test('references contain each path once', async (t) => {
  const compiled = compileValue(['{{auth.sub}}', 'x {{auth.sub}} {{params.id || query.id}}', '{{now()}}'], '', context())
  t.strictSame(compiled.references, [
    { source: 'auth', path: ['sub'] },
    { source: 'params', path: ['id'] },
    { source: 'query', path: ['id'] },
    { source: 'now', path: [] }
  ])
})

t.test('faults contain the error and a correction', async (t) => {
  t.match(faults({ a: ['{{bdy.x}}'] }), [/^\/v\/a\/0 .*is not a source of templates.*\[body\]$/])
  t.match(faults('{{params.idd}}', { params: new Set(['id', 'name']) }), [/has no parameter "idd" \[id\]/])
  t.match(faults('{{results.pots.id}}', { results: new Map([['posts', unknownResult]]) }), [/no earlier query has a result "pots" \[posts\]/])
  t.match(faults('{{tenant.name}}'), [/a tenant has `tenant\.id` and `tenant\.config`$/])
  t.match(faults('{{steps.one.result}}'), [/`steps` is not available here/])
  t.match(faults('{{now}}'), [/written `now\(\)`/])
  t.match(faults('{{body()}}'), [/not a function/])
  t.match(faults('{{secret:api_key}}'), [/`secret` is not available here/])
  t.match(faults('{{secret:api_key}}', { secretsRefusedIn: 'a response' }), [/cannot be used in a response/])
  t.match(faults('x {{body.id'), [/not closed.*character 3/])
  t.match(faults('{body.id}}'), [/no matching/])
  t.match(faults('{{body.id}} }}'), [/no matching/])
  t.match(faults('{{  }}'), [/empty/])
  t.match(faults('{{body.id ||}}'), [/expected a path or a default/])
  t.match(faults('{{body..id}}'), [/expected a name/])
  t.match(faults('{{body.items[x]}}'), [/index/])
  t.match(faults("{{body.id || 'x}}"), [/not closed/])
  t.match(faults('{{body.id | 10}}'), [/expected `\|\|` or `\}\}`/])
  t.match(faults({ '{{body.x}}': 1 }), [/name of a member cannot be a template/])
  t.match(faults(JSON.parse('{"__proto__": {"a": 1}}')), [/__proto__/])
  t.match(faults({ a: () => 1 }), [/not a JSON value/])
  t.match(faults(new Date()), [/plain objects/])
})

t.test('text with balanced braces is not a template', async (t) => {
  t.equal(evaluate('{"a":{"b":1}}'), '{"a":{"b":1}}')
  t.equal(evaluate('{"a":{"b":{{body.x}}}}', { body: { x: 2 } }), '{"a":{"b":2}}')
  t.equal(evaluate("{{ '{{' }}"), '{{')
})

t.test("a value's size is bounded", async (t) => {
  t.match(faults(Array.from({ length: 1001 }, () => '{{body.x}}')), [/at most 1000 templates/])
  t.strictSame(faults(Array.from({ length: 1000 }, () => '{{body.x}}')), [])
  const nest = (depth: number): unknown => depth === 0 ? 1 : [nest(depth - 1)]
  t.strictSame(faults(nest(32)), [])
  t.match(faults(nest(33)), [/at most 32 levels deep/])
  t.match(faults(`{{${Array.from({ length: 40 }, () => 'body.x').join('||')}}}`), [/at most 32 alternatives/])
  t.match(faults(`{{body${'.a'.repeat(40)}}}`), [/at most 32 members/])
})
