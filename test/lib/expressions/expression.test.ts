import t from 'tap'
import { compileExpression } from '../../../lib/expressions/expression.js'
import { unknownResult } from '../../../lib/expressions/known-members.js'
import { noScope } from '../../../lib/expressions/no-scope.js'
import type { TemplateContext } from '../../../lib/expressions/template.js'
import type { Scope } from '../../../lib/expressions/types.js'
import { ExactNumber } from '../../../lib/json/exact-number.js'
import { FaultList } from '../../../lib/schema/faults.js'

function context (more: Partial<TemplateContext> = {}): TemplateContext {
  return {
    faults: new FaultList(),
    sources: new Set(['env', 'body', 'params', 'query', 'headers', 'auth', 'tenant', 'results', 'now', 'uuid']),
    env: { PLAN: 'pro' },
    ...more
  }
}

function evaluate (
  text: string,
  locals: Record<string, unknown> = {},
  scope: Partial<Scope> = {},
  more: Partial<TemplateContext> = {}
): unknown {
  const within = context(more)
  const compiled = compileExpression(text, '', within, ['item', 'result'])
  within.faults.throwIfAny()
  return compiled?.evaluate({ ...noScope, ...scope }, { item: null, result: null, ...locals })
}

function faults (text: string, more: Partial<TemplateContext> = {}): string[] {
  const within = context(more)
  const compiled = compileExpression(text, '/x', within, ['item', 'result'])
  if (within.faults.faults.length > 0 && compiled !== null) return ['compiled despite faults']
  return within.faults.faults.map(({ message, suggestion }) => `${message}${suggestion === undefined ? '' : ` [${suggestion}]`}`)
}

t.test('arithmetic mixes integers with JSON numbers and returns numbers', async (t) => {
  const item = { price: 2.5, quantity: 4, n: 7 }
  t.equal(evaluate('item.price * item.quantity', { item }), 10)
  t.equal(evaluate('item.price * 2', { item }), 5)
  t.equal(evaluate('2 * item.price + 1 - 0.5', { item }), 5.5)
  t.equal(evaluate('item.n / 2', { item }), 3.5)
  t.equal(evaluate('item.n % 4', { item }), 3)
  t.equal(evaluate('-item.n', { item }), -7)
  t.equal(evaluate('7 / 2'), 3, 'two integer literals divide as integers, as in CEL')
  t.equal(evaluate('size("abc")'), 3)
  t.equal(evaluate('item.n / 0', { item }), null, 'a result that is not a number is null')
  t.strictSame(evaluate('[1, item.n, "a", {"b": 2}]', { item }), [1, 7, 'a', { b: 2 }])
})

t.test('the largest unsigned integer and the smallest integer can be written', async (t) => {
  t.equal(evaluate('string(uint("18446744073709551615"))'), '18446744073709551615')
  t.equal(evaluate('string(uint("+18446744073709551615"))'), '18446744073709551615')
  t.equal(evaluate('string(uint(1e19))'), '10000000000000000000')
  t.throws(() => evaluate('uint("18446744073709551616")'), /unsigned integer overflow/)
  t.throws(() => evaluate('uint("a")'), /cannot be converted to uint/)
  t.throws(() => evaluate('uint(1.0 / 0.0)'), /cannot be converted to uint/)
  t.throws(() => evaluate('int("9223372036854775808")'), /cannot be converted to int/)
  t.throws(() => evaluate('int(1e19)'), /cannot be converted to int/)
  t.equal(evaluate('string(-9223372036854775808)'), '-9223372036854775808')
  t.throws(() => evaluate('-(-9223372036854775808)'), /integer overflow/)
})

t.test('=== and !== mean == and !=, except in string literals', async (t) => {
  const scope = { body: { kind: 'a===b' } }
  t.equal(evaluate('body.kind === "a===b"', {}, scope), true)
  t.equal(evaluate("body.kind !== 'a!==b' && 1 == 1", {}, scope), true)
})

t.test('a missing path is null', async (t) => {
  t.equal(evaluate('item.a.b.c', { item: {} }), null)
  t.equal(evaluate('item.a == null', { item: {} }), true)
  t.equal(evaluate('body.flag == true'), false)
  t.equal(evaluate('!item.deleted', { item: {} }), true)
  t.equal(evaluate('item.list[5]', { item: { list: [1] } }), null)
  t.equal(evaluate('item.list[0]', { item: { list: [1] } }), 1)
  t.equal(evaluate('item["a b"]', { item: { 'a b': 2 } }), 2)
  t.equal(evaluate('has(item.a)', { item: { a: null } }), true)
  t.equal(evaluate('has(item.b.c) ? 1 : 2', { item: { a: null } }), 2)
  t.throws(() => evaluate('item.a + 1', { item: {} }), /null \+ int/, 'an operator rejects null')
})

t.test('inherited members cannot be reached', async (t) => {
  for (
    const path of ['item.constructor', 'item.__proto__', 'item.list["length"]', 'item.text["length"]', 'item["constructor"]["constructor"]']
  ) {
    t.equal(evaluate(path, { item: { list: [1], text: 'a' } }), null, path)
  }
  for (
    const text of [
      'item[query.k]',
      'item.list[query.k]',
      '{"a": 1}[query.k]',
      'cel.bind(x, item, x[query.k])',
      'timestamp(item.at).constructor',
      'timestamp(item.at)[query.k]'
    ]
  ) {
    t.throws(() => evaluate(text, { item: { list: [1], at: '2026-01-02T03:04:05Z' } }, { query: { k: 'constructor' } }), text)
  }
})

t.test('a template inside an expression is a reference, never inserted text', async (t) => {
  const hostile = { name: '" || true || "', n: 5, list: [{ a: 1 }] }
  t.equal(evaluate('{{body.name}} == "x"', {}, { body: hostile }), false)
  t.equal(evaluate('"{{body.name}}" == "x"', {}, { body: hostile }), false)
  t.equal(evaluate("'{{body.name}}' === 'a'", {}, { body: { name: 'a' } }), true)
  t.equal(evaluate('{{body.n}} > 4', {}, { body: hostile }), true)
  t.equal(evaluate('{{body.list}}[0].a', {}, { body: hostile }), 1)
  t.equal(evaluate('{{query.limit || 10}} + 1'), 11)
  t.equal(evaluate('"a {{body.n}} b {{body.none}}."', {}, { body: hostile }), 'a 5 b .')
  t.equal(evaluate("'it\\'s {{body.n}}'", {}, { body: hostile }), "it's 5")
  t.equal(evaluate('env.PLAN + "{{env.PLAN}}"'), 'propro')
})

t.test('a member after a template is part of its path', async (t) => {
  const known = { schema: () => ({ properties: { title: {} } }), hidden: new Set<string>(), excluded: new Set<string>() }
  const more: Partial<TemplateContext> = { results: new Map([['one', known]]), rules: { body: { title: { type: 'string' } } } }
  const texts = ['{{results.one}}.titel', '{{results}}.one["titel"]', '{{body.title || results.one}}.titel', 'has({{results.one}}.titel)']
  for (const text of texts) t.match(faults(text, more), [/^`results\.one\.titel`: the result has no member "titel" there.*\[title\]$/], text)
  for (const text of ['{{body}}.titel', '"{{body}}".titel', '{{query.a || body}}.titel']) {
    t.match(faults(text, more), [/^the request has no `body\.titel`.*\[title\]$/], text)
  }
  t.strictSame(faults('{{results.one}}.title + {{body}}.title + {{query.a || results.one}}.title', more), [])
  t.match(faults('{{item}}.titel', more), [/write `item` without braces here$/])

  const compiled = compileExpression('{{body}}.a && {{query.q}}["b"][0] && {{params || auth}}.c', '', context(), [])
  t.strictSame(compiled?.references, [
    { source: 'body', path: ['a'] },
    { source: 'query', path: ['q', 'b', 0] },
    { source: 'params', path: [] },
    { source: 'auth', path: [] }
  ])
  const at = { body: { n: 5 }, headers: { 'x-kind': 'a' } }
  t.equal(evaluate('{{headers}}["X-Kind"]', {}, at), 'a', 'names of headers are case-insensitive')
  t.equal(evaluate('{{query.none || body}}.n', {}, at), 5)
  for (const text of ['{{now()}}.x', '{{env.PLAN}}.x', '{{body.n}}.x']) t.equal(evaluate(text, {}, at), null, text)
})

t.test('an expression lists its references', async (t) => {
  const compiled = compileExpression(
    'auth.role == "admin" && {{tenant.id}} == "x" && has(body.a) && headers["X-Kind"] == "1"',
    '',
    context(),
    []
  )
  t.strictSame(compiled?.references, [
    { source: 'auth', path: ['role'] },
    { source: 'tenant', path: ['id'] },
    { source: 'body', path: ['a'] },
    { source: 'headers', path: ['x-kind'] }
  ])
})

t.test("macros and matches work in the platform's document, and are rejected in a tenant's", async (t) => {
  const item = { tags: ['a', 'b'], lines: [{ n: 1 }, { n: 2 }], item: 3 }
  t.strictSame(evaluate('item.lines.map(line, line.n * 2)', { item }), [2, 4])
  t.equal(evaluate('item.tags.exists(tag, tag == "b")', { item }), true)
  t.equal(evaluate('item.lines.all(item, item.n > 0)', { item }), true, "a macro's variable shadows a local")
  t.equal(evaluate('cel.bind(x, item.item + 1, x * x)', { item }), 16)
  t.equal(evaluate('item.tags[0].matches("^a$")', { item }), true)
  for (
    const text of [
      'item.a.all(x, x > 1)',
      'item.a.exists(x, x > 1)',
      'item.a.exists_one(x, x > 1)',
      'item.a.map(x, x)',
      'item.a.filter(x, true)',
      'cel.bind(x, item.a, x + x)',
      'item.a.matches("a")',
      '[[1]].map(x, x.map(y, y))',
      '1 == 1 ? item.a.map(x, x) : []',
      '{"a": [1].map(x, x)}["a"]'
    ]
  ) {
    t.match(faults(text, { ofTenant: true }), [/not allowed in a tenant's document/], text)
    t.strictSame(faults(text), [], text)
  }
  t.strictSame(faults('has(item.a) && item.a.startsWith("x") && size(item.b) > 1', { ofTenant: true }), [])
})

t.test('faults name the signs of an expression, and always have a text', async (t) => {
  t.strictSame(faults('item.a +'), ['unexpected: the end of the expression (at character 9)'])
  t.strictSame(faults('size(item.a'), ['expected `)`, got the end of the expression (at character 12)'])
  t.strictSame(faults('item.a +* 2'), ['unexpected: `*` (at character 9)'])
  t.strictSame(faults('[].all(x, x == x)'), ['the types of the expression cannot be determined (at character 1)'])
})

t.test('cost is bounded', async (t) => {
  t.match(faults(`"${'a'.repeat(4096)}"`), [/at most 4096 characters/])
  t.match(faults(`${'('.repeat(100)}1${')'.repeat(100)}`), [/depth/i])
  t.match(faults('duration(body.text)'), [/string literal/])
  t.match(faults('item.a.matches(body.pattern)'), [/string literal/])
  t.equal(evaluate('duration("90s")'), '90s')
  const body = { big: 'x'.repeat(400_000) }
  t.equal(evaluate('size(body.big + body.big) > 1', {}, { body }), true)
  const numbers = Array.from({ length: 1000 }, (_, index) => index)
  t.throws(() => evaluate('item.exists(x, x.a == 1)', { item: numbers }), { code: 'TENANTRY_EXPRESSION_LIMIT' }, 'each error is charged')
  t.throws(() => evaluate('body.big + body.big + body.big + body.big + body.big + body.big', {}, { body }), {
    code: 'TENANTRY_EXPRESSION_LIMIT'
  })
})

t.test('each digit of a long number counts', async (t) => {
  const limit = { code: 'TENANTRY_EXPRESSION_LIMIT' }
  const digits = '7'.repeat(1000)
  const made = () => Array.from({ length: 1000 }, (_, index) => new ExactNumber(`1.${digits}${index}1`))
  const body = { number: new ExactNumber(`1.${digits}`), decimals: made(), equal: made(), integers: made().map(() => BigInt(digits)) }
  const every = (value: string) => `body.decimals.map(x, ${value})`
  for (
    const text of [
      'body.number in body.decimals',
      'body.decimals == body.equal',
      every('x < 2.5'),
      every('x + 1.0'),
      every('2.5 * x'),
      every('-x'),
      every('double(x)'),
      every('int(x)'),
      every('uint(x)'),
      'body.integers.map(x, string(x))',
      'body.integers',
      'body.decimals.map(x, body.integers)'
    ]
  ) t.throws(() => evaluate(text, {}, { body }), limit, text)
  const prices = Array.from({ length: 2000 }, (_, index) => new ExactNumber(`1.0000000000000000000${index}1`))
  t.equal(evaluate('item in body.prices', { item: prices[0] }, { body: { prices: [...prices].reverse() } }), true, 'short ones are cheap')
  t.equal(evaluate('string(item)', { item: 10n ** 30n }), `1${'0'.repeat(30)}`)
  t.equal(evaluate('item', { item: 10n ** 30n }), 10n ** 30n)
})

t.test('faults contain the position and a correction', async (t) => {
  t.match(faults('item.price *'), [/character 13/])
  t.match(faults('item.price === === 1'), [/character 16/])
  t.match(faults('{{body.a}} + + {{body.b}}'), [/character 14/])
  t.match(faults("'open"), [/not closed.*character 1/])
  t.match(faults('itm.price * 2'), [/`itm` is not defined here.*character 1\) \[item\]/])
  t.match(faults('1 + bodi'), [/`bodi` is not defined here.*character 5\) \[body\]/])
  t.match(faults('nope(1)'), [/nope/])
  t.match(faults('"a" + 1'), [/no such overload/])
  t.match(faults('params.idd == "1"', { params: new Set(['id']) }), [/no parameter "idd" \[id\]/])
  t.match(faults('{{results.a.b}} == 1', { results: new Map([['b', unknownResult]]) }), [/no earlier query/])
  t.match(faults('secret.KEY == "a"'), [/`secret` is not available here/])
  t.match(faults('{{secret:KEY}} == "a"', { secretsRefusedIn: 'a transform' }), [/cannot be used in a transform/])
  t.match(faults('{{item.price}} * 2'), [/write `item.price` without braces/])
  t.match(faults('__v0 + 1'), [/is not defined here/])
  t.match(faults('r"{{body.a}}"'), [/raw/])
  t.match(faults('body.items.length > 0'), [
    /have no `length`; write a field with that name as `body.items\["length"\]`.*\[size\(body.items\)\]/
  ])
  t.match(faults('{{body.items.length}} > 0'), [/have no `length`/])
  t.match(faults('item.a.all(x, x.tags.length > 1) || {"a": body.b}.a.c.length > 0'), [/`length`/, /`length`/])
  t.strictSame(faults('item.length * item.width > body["items"]["length"]'), [], 'a record may have a field with this name')
})

t.test('functions of texts count characters, and never cut one in two', async (t) => {
  const body = { text: '😀b😀ä😀', other: '😀' }
  for (
    const [text, expected] of [
      ['size(body.text)', 5],
      ['body.text.substring(0, 1)', '😀'],
      ['body.text.substring(1)', 'b😀ä😀'],
      ['body.text.substring(1, 4)', 'b😀ä'],
      ['body.text.substring(0, size(body.text) - 1)', '😀b😀ä'],
      ['body.text.substring(5)', ''],
      ['body.text.substring(2, 2)', ''],
      ['body.text.indexOf("ä")', 3],
      ['body.text.indexOf(body.other, 1)', 2],
      ['body.text.indexOf(body.other, 3)', 4],
      ['body.text.indexOf("x", 4)', -1],
      ['body.text.lastIndexOf(body.other)', 4],
      ['body.text.lastIndexOf(body.other, 3)', 2],
      ['body.text.lastIndexOf("")', 5],
      ['body.text.split("")', ['😀', 'b', '😀', 'ä', '😀']],
      ['body.text.split("", 3)', ['😀', 'b', '😀ä😀']],
      ['body.text.split("", 1)', ['😀b😀ä😀']],
      ['body.text.split("", 6)', ['😀', 'b', '😀', 'ä', '😀']],
      ['"äöü".substring(1, 2)', 'ö'],
      ['"abc".split("", 2)', ['a', 'bc']],
      ['"abcb".indexOf("b", 2)', 3],
      ['"abcb".lastIndexOf("b", 2)', 1]
    ] as const
  ) t.strictSame(evaluate(text, {}, { body }), expected, text)
  for (
    const text of [
      'body.text.substring(6)',
      'body.text.substring(0, 6)',
      'body.text.substring(2, 1)',
      'body.text.substring(-1)',
      'body.text.indexOf("b", 5)',
      'body.text.lastIndexOf("b", -1)',
      '"abc".substring(4)',
      '"abc".indexOf("b", 3)'
    ]
  ) t.throws(() => evaluate(text, {}, { body }), /index is out of range/, text)
})

t.test('each character of a pair counts for the budget', async (t) => {
  const body = { text: '😀'.repeat(50_000), numbers: Array.from({ length: 100 }, (_, index) => 49_000 + index) }
  const limit = { code: 'TENANTRY_EXPRESSION_LIMIT' }
  for (
    const text of [
      'body.numbers.map(n, body.text.substring(int(n)))',
      'body.numbers.map(n, body.text.indexOf("x", int(n)))',
      'body.numbers.map(n, body.text.lastIndexOf("😀"))',
      'body.numbers.map(n, body.text.split("", int(n)))'
    ]
  ) t.throws(() => evaluate(text, {}, { body }), limit, text)
  t.equal(evaluate('body.text.substring(49999)', {}, { body }), '😀')
})

t.test('lowerAscii and upperAscii change letters of ASCII only', async (t) => {
  const body = { text: 'Straße @[`{ éÉİ\u212a ŉ 😀 azAZ' }
  t.equal(evaluate('body.text.upperAscii()', {}, { body }), 'STRAßE @[`{ éÉİ\u212a ŉ 😀 AZAZ')
  t.equal(evaluate('body.text.lowerAscii()', {}, { body }), 'straße @[`{ éÉİ\u212a ŉ 😀 azaz')
  t.equal(evaluate('"@AZ[`az{".upperAscii()'), '@AZ[`AZ{')
  t.equal(evaluate('"@AZ[`az{".lowerAscii()'), '@az[`az{')
})

t.test('timestamp() reads the times of columns, in every zone of the server', async (t) => {
  const zone = process.env['TZ']
  t.teardown(() => {
    if (zone === undefined) delete process.env['TZ']
    else process.env['TZ'] = zone
  })
  process.env['TZ'] = 'America/New_York'
  const read = (at: string) => evaluate('timestamp(item.at)', { item: { at } })
  t.equal(read('2026-01-02T03:04:05.123456+00:00'), '2026-01-02T03:04:05.123Z', 'a timestamptz')
  t.equal(read('2026-01-02T03:04:05.123456789+01:00'), '2026-01-02T02:04:05.123Z')
  t.equal(read('2026-01-02T03:04:05.123456'), '2026-01-02T03:04:05.123Z', 'a timestamp')
  t.equal(read('2026-01-02T03:04:05'), '2026-01-02T03:04:05.000Z', 'a timestamp of a whole second')
  t.equal(read('2026-01-02 03:04:05+02'), '2026-01-02T01:04:05.000Z', 'as PostgreSQL writes it')
  t.equal(read('2026-01-02T03:04:05+02'), '2026-01-02T01:04:05.000Z')
  t.equal(read('2026-01-02T03:04:05-0530'), '2026-01-02T08:34:05.000Z')
  t.equal(read('2026-01-02t03:04z'), '2026-01-02T03:04:00.000Z')
  t.equal(read('2024-02-29T00:00:00Z'), '2024-02-29T00:00:00.000Z')
  for (
    const other of [
      '2026-02-29T00:00:00Z',
      '2026-02-30T00:00:00Z',
      '2026-13-01T00:00:00Z',
      '2026-01-02T25:00:00Z',
      '2026-01-02T03:04:05+99:00',
      '01/05/2026 10:00:00',
      'Tue Mar 01 2022 10:00:00',
      'Tue, 01 Mar 2022 10:00:00 GMT'
    ]
  ) t.throws(() => read(other), /cannot be converted to a timestamp/, other)
  t.throws(() => read('2026-01-02'), /cannot be converted to a timestamp/)
  t.throws(() => read(`2026-01-02T03:04:05.${'1'.repeat(20)}Z`), /cannot be converted to a timestamp/)
})

t.test('computed indexes and methods of values work', async (t) => {
  const item = { list: ['a', 'b'], i: 1, name: 'Ann Lee', at: '2026-01-02T03:04:05Z' }
  t.equal(evaluate('item.list[item.i]', { item }), 'b')
  t.equal(evaluate('item.name.split(" ")[0].upperAscii()', { item }), 'ANN')
  t.equal(evaluate('timestamp(item.at).getFullYear()', { item }), 2026)
  t.equal(evaluate('timestamp(item.at)', { item }), '2026-01-02T03:04:05.000Z')
  t.equal(evaluate('type(item.i) == double', { item }), true)
  t.equal(evaluate('(item).name', { item }), 'Ann Lee')
  t.match(evaluate('now()'), /^\d{4}-/)
  t.throws(() => evaluate('item.list[item.list]', { item }), /the list has no such member/)
})
