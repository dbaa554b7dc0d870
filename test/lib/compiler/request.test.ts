import t from 'tap'
import { compileRequest, type RequestRoute } from '../../../lib/compiler/request.js'
import { TenantryError } from '../../../lib/errors.js'
import { FaultList } from '../../../lib/schema/faults.js'
import type { RequestRules } from '../../../lib/schema/route.js'
import { recentPatterns } from '../../../lib/validation/linear-pattern.js'

const plain: RequestRoute = { params: [], paginated: false, hardDelete: false }

function compile (rules: RequestRules | undefined, route: Partial<RequestRoute> = {}) {
  const faults = new FaultList()
  const compiled = compileRequest(rules, '/request', faults, { ...plain, ...route })
  faults.throwIfAny()
  return compiled
}

function faultsOf (rules: RequestRules | undefined, route: Partial<RequestRoute> = {}): string[] {
  const faults = new FaultList()
  compileRequest(rules, '/request', faults, { ...plain, ...route })
  return faults.faults.map(({ pointer, message, suggestion }) =>
    `${pointer} ${message}${suggestion === undefined ? '' : ` [${suggestion}]`}`
  )
}

/** The details of the rejection as `path: message`, if any. */
function refusal (
  rules: RequestRules | undefined,
  request: { params?: unknown, query?: unknown, body?: unknown },
  route: Partial<RequestRoute> = {}
): string[] {
  try {
    compile(rules, route).validate({ params: {}, query: {}, body: undefined, ...request })
    return []
  } catch (error) {
    if (
      !(error instanceof TenantryError) || error.code !== 'TENANTRY_VALIDATION_FAILED' || !Array.isArray(error.extras['details'])
    ) { throw error }
    return error.extras['details'].map(({ path, message }) => `${path}: ${message}`)
  }
}

t.test('each rule rejects invalid values and says what to do', async (t) => {
  const body: RequestRules['body'] = {
    title: { type: 'string', required: true, minLength: 2, maxLength: 5 },
    status: { type: 'string', enum: ['draft', 'published'] },
    count: { type: 'integer', minimum: 1, maximum: 10 },
    price: { type: 'number' },
    on: { type: 'boolean' },
    mail: { type: 'string', format: 'email' },
    id: { type: 'string', format: 'uuid' },
    at: { type: 'string', format: 'date-time' },
    day: { type: 'string', format: 'date' },
    link: { type: 'string', format: 'uri' },
    slug: { type: 'string', pattern: '^[a-z]+$' },
    tags: { type: 'array', minLength: 1, maxLength: 2, items: { type: 'string' } },
    note: { type: 'string', nullable: true },
    kind: { type: 'string', nullable: true, enum: ['a'] },
    address: { type: 'object', properties: { city: { type: 'string', required: true } } },
    loose: { type: 'object', properties: { a: { type: 'string' } }, additionalFields: true },
    any: {}
  }
  const refused = (fields: Record<string, unknown>) => refusal({ body }, { body: { title: 'abc', ...fields } })
  t.strictSame(refused({}), [])
  t.strictSame(refusal({ body }, { body: {} }), ['/body/title: is required'])
  t.strictSame(refused({ title: 'a' }), ['/body/title: must have at least 2 characters'])
  t.strictSame(refused({ title: 'abcdef' }), ['/body/title: must have at most 5 characters'])
  t.strictSame(refused({ title: 5 }), ['/body/title: must be a string'])
  t.strictSame(refused({ title: null }), ['/body/title: must be a string'])
  t.strictSame(refused({ status: 'x' }), ['/body/status: must be one of draft, published'])
  t.strictSame(refused({ count: 0 }), ['/body/count: must be at least 1'])
  t.strictSame(refused({ count: 11 }), ['/body/count: must be at most 10'])
  t.strictSame(refused({ count: 1.5 }), ['/body/count: must be an integer'])
  t.strictSame(refused({ count: '5' }), ['/body/count: must be an integer'], 'bodies are never coerced')
  t.strictSame(refused({ price: '1.5' }), ['/body/price: must be a number'])
  t.strictSame(refused({ on: 'true' }), ['/body/on: must be true or false'])
  t.strictSame(refused({ mail: 'nobody' }), ['/body/mail: must be an e-mail address'])
  t.strictSame(refused({ id: '1-2' }), ['/body/id: must be a UUID'])
  t.strictSame(refused({ at: 'yesterday' }), ['/body/at: must be a date and time such as 2026-01-31T12:00:00Z'])
  t.strictSame(refused({ day: '2026-02-30' }), ['/body/day: must be a date such as 2026-01-31'])
  t.strictSame(refused({ link: 'a b' }), ['/body/link: must be an absolute URI'])
  t.strictSame(refused({ slug: 'A1' }), ['/body/slug: must match the pattern ^[a-z]+$'])
  t.strictSame(refused({ tags: [] }), ['/body/tags: must have at least 1 item'])
  t.strictSame(refused({ tags: ['a', 'b', 'c'] }), ['/body/tags: must have at most 2 items'])
  t.strictSame(refused({ tags: ['a', 1] }), ['/body/tags/1: must be a string'])
  t.strictSame(refused({ note: null, kind: null, any: [1, null, {}] }), [])
  t.strictSame(refused({ note: 1 }), ['/body/note: must be a string or null'])
  t.strictSame(refused({ address: {} }), ['/body/address/city: is required'])
  t.strictSame(refused({ address: { city: 'x', zip: 1 } }), ['/body/address/zip: "zip" is not a known field'])
  t.strictSame(refused({ loose: { a: 'x', zip: 1 } }), [])
  t.strictSame(refused({ titl: 1 }), ['/body/titl: "titl" is not a known field, did you mean "title"?'])
  t.strictSame(
    refused({
      mail: 'a@b.example',
      id: '7f1e0d0a-0b5e-4d49-9d3b-1d9b6f7c0e11',
      at: '2026-01-31T12:00:00Z',
      day: '2026-01-31',
      link: 'https://a.example/b',
      slug: 'abc'
    }),
    []
  )
})

t.test('one response contains all errors of all parts', async (t) => {
  t.strictSame(
    refusal(
      {
        params: { id: { type: 'integer' } },
        query: { number: { type: 'integer' } },
        body: { first: { type: 'string', required: true }, second: { type: 'string' } }
      },
      { params: { id: 'x' }, query: { number: 'y', zoo: '1' }, body: { second: 1, other: 2 } },
      { params: ['id'] }
    ),
    [
      '/params/id: must be an integer',
      '/query/zoo: "zoo" is not a known field',
      '/query/number: must be an integer',
      '/body/first: is required',
      '/body/other: "other" is not a known field',
      '/body/second: must be a string'
    ]
  )
})

t.test('params and query strings are coerced in place', async (t) => {
  const request = compile({
    params: { id: { type: 'integer' } },
    query: {
      n: { type: 'integer' },
      b: { type: 'boolean' },
      p: { type: 'number' },
      tags: { type: 'array', items: { type: 'string' } },
      ids: { type: 'array', items: { type: 'integer' } },
      s: { type: 'string' }
    }
  }, { params: ['id', 'name'] })
  const params = { id: '5', name: '7' }
  const query = { n: '12', b: 'true', p: '1.5', tags: 'one', ids: ['1', '2'], s: '9' }
  request.validate({ params, query, body: undefined })
  t.strictSame(params, { id: 5, name: '7' }, 'a parameter without a rule stays text')
  t.strictSame(query, { n: 12, b: true, p: 1.5, tags: ['one'], ids: [1, 2], s: '9' })
  for (
    const wrong of [
      { n: '1.5' },
      { n: '' },
      { n: ['1', '2'] },
      { n: 'Infinity' },
      { b: 'yes' },
      { p: 'NaN' },
      { p: 'Infinity' },
      { p: '0x10' },
      { ids: ['1', '0x10'] },
      { s: ['a', 'b'] }
    ]
  ) {
    t.throws(() => request.validate({ params: { id: '1', name: 'x' }, query: { ...wrong }, body: undefined }), JSON.stringify(wrong))
  }
})

t.test('a text of the query string is converted only where its type is a number', async (t) => {
  const items = { type: 'integer' } as const
  for (const route of [{}, { ofTenant: true }]) {
    const accepts = (rule: NonNullable<RequestRules['query']>[string], given: unknown, expected: unknown) => {
      const query = { q: given }
      compile({ query: { q: rule } }, route).validate({ params: {}, query, body: undefined })
      t.strictSame(query, { q: expected }, JSON.stringify({ rule, given }))
    }
    accepts({ items }, '1,2', '1,2')
    accepts({ items }, 'abc', 'abc')
    accepts({ items }, ['1', '2'], [1, 2])
    accepts({ items, type: 'array' }, '1', [1])
    t.match(refusal({ query: { q: { items, maxLength: 3 } } }, { query: { q: 'abcdef' } }, route), [/at most 3 characters/])
    for (const wrong of ['0x10', 'abc', ['1', '0x10']]) {
      t.match(refusal({ query: { q: { items, type: 'array' } } }, { query: { q: wrong } }, route), [/must be an integer/])
    }
    t.match(refusal({ query: { q: { items } } }, { query: { q: ['1', '0x10'] } }, route), [/must be an integer/])
    t.match(refusal({ query: { q: { type: 'integer' } } }, { query: { q: ['0x10'] } }, route), [/must be an integer/])
  }
})

t.test('a paginated route accepts limit and offset, one with hard deletion accepts hard', async (t) => {
  const query: RequestRules['query'] = { q: { type: 'string' } }
  const values: Record<string, unknown> = { limit: '5', offset: '10', other: 'x' }
  compile(undefined, { paginated: true }).validate({ params: {}, query: values, body: undefined })
  t.strictSame(values, { limit: 5, offset: 10, other: 'x' }, 'an undeclared query string accepts any parameter')
  for (const route of [{ paginated: true }, { paginated: true, hardDelete: true }]) {
    for (const wrong of ['-1', 'abc', '1.5', '2147483648', '1e30', '']) {
      t.match(refusal(undefined, { query: { limit: wrong } }, route), [/^\/query\/limit: must be/], `limit=${wrong}`)
      t.match(refusal({ query }, { query: { offset: wrong } }, route), [/^\/query\/offset: must be/], `offset=${wrong}`)
    }
  }
  t.strictSame(refusal({ query }, { query: { limit: '1', q: 'x' } }, { paginated: true }), [])
  t.match(refusal({ query }, { query: { limit: '1' } }), [/not a known field/], 'a route without pages does not')
  t.match(refusal({ query }, { query: { limt: '1' } }, { paginated: true }), [/did you mean "limit"/])
  t.match(
    refusal({ query: { limit: { type: 'integer', maximum: 5 } } }, { query: { limit: '6' } }, { paginated: true }),
    [/at most 5/],
    'a declared rule is kept'
  )
  const hard: Record<string, unknown> = { hard: 'true' }
  compile(undefined, { hardDelete: true }).validate({ params: {}, query: hard, body: undefined })
  t.strictSame(hard, { hard: true })
})

t.test('an undeclared part accepts any field; additionalFields opens the others', async (t) => {
  t.strictSame(refusal(undefined, { query: { a: '1' }, body: { b: 1 } }), [])
  t.strictSame(refusal({ body: { a: {} } }, { query: { x: '1' }, body: { a: 1 } }), [])
  t.strictSame(refusal({ additionalFields: true, body: { a: {} }, query: { b: {} } }, { query: { x: '1' }, body: { y: 1 } }), [])
  t.match(refusal({ body: {} }, { body: { y: 1 } }), [/not a known field/], 'an empty map declares a body without fields')
})

t.test('a body is required if one of its fields is', async (t) => {
  const required: RequestRules = { body: { a: { required: true } } }
  t.strictSame(refusal(required, {}), ['/body: is required: send a JSON object'])
  t.strictSame(refusal(required, { body: null }), ['/body: is required: send a JSON object'])
  t.strictSame(refusal({ body: { a: {} } }, {}), [])
  t.strictSame(refusal({ body: { a: {} } }, { body: 'text' }), ['/body: must be an object'])
})

t.test('in an array body, each item is validated', async (t) => {
  const rules: RequestRules = { body: { title: { type: 'string', required: true } } }
  t.strictSame(refusal(rules, { body: [{ title: 'a' }, { title: 'b' }] }), [])
  t.strictSame(refusal(rules, { body: [{ title: 'a' }, {}, { title: 1 }, 5] }), [
    '/body/1/title: is required',
    '/body/2/title: must be a string',
    '/body/3: must be an object'
  ])
  t.strictSame(refusal(rules, { body: [{ title: 'a' }] }, { bulk: false }), ['/body: must be an object'])
})

t.test('details are bounded, and a large invalid body gets only its first error', async (t) => {
  const rules: RequestRules = { body: { title: { type: 'string', required: true } } }
  t.equal(refusal(rules, { body: Array.from({ length: 60 }, () => ({})) }).length, 50)
  t.equal(refusal(rules, { body: Array.from({ length: 100_000 }, () => 1) }).length, 1)
  const [unknown] = refusal(rules, { body: { title: 'a', ['x'.repeat(100_000)]: 1 } })
  t.ok(unknown !== undefined && unknown.length < 400, "a caller's long field name is truncated")
})

t.test('names of Object.prototype are ordinary fields', async (t) => {
  t.match(refusal({ body: { a: {} } }, { body: { constructor: 1, toString: 2 } }), [/"constructor" is not/, /"toString" is not/])
  t.match(refusal({ body: { constructor: { required: true } } }, { body: {} }), [/constructor: is required/])
})

t.test('invalid rules are reported as faults', async (t) => {
  t.match(faultsOf({ params: { idd: {} } }, { params: ['id'] }), [/^\/request\/params\/idd .*no parameter.*\[id\]$/])
  t.match(faultsOf({ body: { a: { type: 'string', pattern: '(' } } }), [
    /^\/request\/body\/a\/pattern invalid regular expression: \/\(\/u: Unterminated group/
  ])
  t.match(faultsOf({ body: { a: { type: 'number', minLength: 1 } } }), [/minLength.*is for string or array/])
  t.match(faultsOf({ body: { a: { type: 'integer', format: 'email' } } }), [/format.*an integer/])
  t.match(faultsOf({ body: { a: { type: 'string', items: {} } } }), [/items/])
  t.match(faultsOf({ body: { a: { type: 'integer', enum: ['1'] } } }), [/enum\/0/])
  t.match(faultsOf({ body: { a: { minLength: 3, maxLength: 2 } } }), [/no value would be accepted/])
  let deep: NonNullable<RequestRules['body']>[string] = { type: 'string' }
  for (let depth = 0; depth < 40; depth++) deep = { type: 'array', items: deep }
  t.match(faultsOf({ body: { a: deep } }), [/at most 32 levels deep/])
})

t.test("a tenant's patterns use RE2", async (t) => {
  const linear = { ofTenant: true }
  const compiled = (pattern: string, more: object = {}) => faultsOf({ body: { a: { type: 'string', pattern, ...more } } }, linear)
  const accepted = [
    '^[a-z]+$',
    '^\\d{4}-\\d{2}-\\d{2}$',
    '^(draft|published|[0-9]{3})$',
    '^[a-z0-9]+@[a-z]+$',
    '^(?:ab)+$',
    '^(?<year>\\d{4})$',
    '^[(*+]+$',
    '^\\(a\\)$',
    '^\\p{L}+$',
    '^\\u0041\\/b$',
    '^[^@\\s]+@[^@\\s]+$',
    '^(a+)+$',
    '^(a|a)*$',
    '^(a|b)+$',
    '^(a?){30}$',
    '^((a{2,3})b)*$',
    `^${'a?'.repeat(40)}${'a'.repeat(40)}$`,
    `^${'(a|a)'.repeat(40)}$`,
    '^a*a*a*a*b$'
  ]
  for (const pattern of accepted) t.strictSame(compiled(pattern), [], pattern)
  for (const pattern of ['(?=a)b', '(?!a)b', '(?<=a)b', '(?<!a)b', '(a)\\1', '(?<n>a)\\k<n>', '(', '[b-a]']) {
    t.match(compiled(pattern), [
      /^\/request\/body\/a\/pattern not a regular expression of RE2's syntax, which has neither look-around nor back-references: /
    ], pattern)
  }
  t.match(compiled(`^${'a'.repeat(600)}$`), [/at most 500 characters/])
  for (
    const pattern of [
      '(?:a{100}){11}',
      '((a{10}){10}){10}{2}',
      `(?:${'abcdefgh'.repeat(60)}){900}`,
      'a{1000}'.repeat(70),
      'a{1001}',
      'a{1}{900}{900}',
      '\\p{L}'.repeat(98),
      '(?:[^\\p{L}\\p{N}]){20}'
    ]
  ) {
    t.match(compiled(pattern), [/too large with its repeats written out|not a regular expression/], pattern.slice(0, 40))
  }
  t.match(compiled('^(?:a{100}){9}$', { maxLength: 10_000 }), [
    /takes too long on a string of 10000 characters: set a `maxLength` of at most 1\d\d\d/
  ])
  t.strictSame(compiled('^(?:a{100}){9}$', { maxLength: 900 }), [])
  const many = Object.fromEntries(
    Array.from({ length: 100 }, (_, index) => [`f${index}`, { type: 'string' as const, pattern: `^[a-z]{90}${index}$` }])
  )
  t.match(faultsOf({ body: many }, linear), [/the patterns of this route are too large in total: the limit is 2000/])
  t.strictSame(faultsOf({ body: many }), [], "the platform's patterns have no such bound")
  t.strictSame(faultsOf({ body: { a: { type: 'string', pattern: '^(?=a)(a)\\1$' } } }), [], "and use JavaScript's syntax")

  const rules: RequestRules = { body: { a: { type: 'string', pattern: '^[a-z]+$', maxLength: 20 } } }
  t.strictSame(refusal(rules, { body: { a: 'A' } }, linear), ['/body/a: must match the pattern ^[a-z]+$'])
  t.strictSame(refusal(rules, { body: { a: 'abc' } }, linear), [])
  t.strictSame(refusal(rules, { body: { a: 'a'.repeat(21) } }, linear), ['/body/a: must have at most 20 characters'])
})

t.test('the total of compiled patterns of all tenants is bounded, and an evicted pattern is compiled again', async (t) => {
  const ruleOf = (index: number): RequestRules => ({ body: { a: { type: 'string', pattern: `^${index}[a-z]$` } } })
  const first = compile(ruleOf(0), { ofTenant: true })
  for (let index = 1; index < 4000; index++) compile(ruleOf(index), { ofTenant: true })
  t.ok(recentPatterns() > 1000 && recentPatterns() < 3500, `${recentPatterns()} of 4000 are cached`)
  first.validate({ params: {}, query: {}, body: { a: '0b' } })
  t.throws(() => first.validate({ params: {}, query: {}, body: { a: '1b' } }), { code: 'TENANTRY_VALIDATION_FAILED' })
  compile({ body: { a: { type: 'string', pattern: '^(?:a{90}){10}$' } } }, { ofTenant: true })
  t.ok(recentPatterns() < 3500)
})

t.test('a hostile text takes no longer than any other of its length', async (t) => {
  const linear = { ofTenant: true }
  const hostile = `${'a'.repeat(99_999)}!`
  for (const pattern of ['^(a+)+$', '^(a|a)*$', '^(a*)*$']) {
    const rules: RequestRules = { body: { a: { type: 'string', pattern, maxLength: 100_000 } } }
    t.match(refusal(rules, { body: { a: hostile } }, linear), [/^\/body\/a: must match the pattern/], pattern)
    t.strictSame(refusal(rules, { body: { a: 'a'.repeat(100_000) } }, linear), [])
  }
  t.match(
    refusal({ body: { a: { type: 'string', pattern: '^(a+)+$' } } }, { body: { a: hostile } }, linear),
    [/at most 10000 characters/],
    'a default maxLength applies'
  )
  const list: RequestRules = { query: {}, body: { a: { type: 'array', items: { type: 'string', pattern: '^(a?){100}$' } } } }
  t.strictSame(refusal(list, { body: { a: Array.from({ length: 50 }, () => 'a'.repeat(2000)) } }, linear).slice(-1), [
    ': the request has too much data to validate: send less at once'
  ], 'many texts share one cost budget')
  t.strictSame(refusal(list, { body: { a: ['a'] } }, linear), [], 'each request has a new budget')
  for (const format of ['email', 'uuid', 'date-time', 'date', 'uri'] as const) {
    const rules: RequestRules = { body: { a: { type: 'string', format } } }
    for (
      const text of [
        'a'.repeat(1_000_000),
        `a@${'a.'.repeat(500_000)}!`,
        `a@${'a-'.repeat(500_000)}`,
        `a://${'%aa'.repeat(300_000)} `,
        ' '.repeat(1_000_000),
        `2026-01-01T00:00:00.${'1'.repeat(1_000_000)}`
      ]
    ) {
      t.equal(refusal(rules, { body: { a: text } }).length, 1, format)
    }
  }
})

t.test("the documentation contains the rules' schemas", async (t) => {
  const { params, query, body } = compile({ body: { a: { type: 'string', required: true, description: 'An a.' } } }, {
    params: ['id'],
    paginated: true
  })
  t.strictSame(params, { type: 'object', properties: { id: { type: 'string' } }, required: ['id'] })
  t.match(query, { properties: { limit: { type: 'integer', minimum: 0 }, offset: { type: 'integer' } }, additionalProperties: undefined })
  t.strictSame(body, {
    type: 'object',
    properties: { a: { type: 'string', description: 'An a.' } },
    required: ['a'],
    additionalProperties: false
  })
  t.strictSame(Object.keys(compile(undefined)), ['patternCost', 'validate'])
})
