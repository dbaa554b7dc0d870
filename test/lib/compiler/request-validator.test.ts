import { test } from 'tap'
import { compileRequest } from '../../../lib/compiler/request.js'
import { TenantryError } from '../../../lib/errors.js'
import { FaultList } from '../../../lib/schema/faults.js'
import type { Field, RequestRules } from '../../../lib/schema/route.js'
import { type SeededChoices, seededChoices } from '../../helpers/random.js'

const names = ['a', 'b', 'c/d', 'e~', 'constructor'] as const
const texts = [
  '',
  'x',
  'abc',
  'ABC',
  'a😀',
  'me@example.com',
  '2026-01-31',
  '2026-01-31T12:00:00Z',
  '00000000-0000-4000-8000-000000000001',
  'https://example.com/a',
  'null'
] as const

function field ({ next, pick }: SeededChoices, depth: number): Field {
  const type = pick(
    depth > 2
      ? (['string', 'number', 'integer', 'boolean'] as const)
      : (['string', 'number', 'integer', 'boolean', 'array', 'object', undefined] as const)
  )
  const [least, more] = [next(3), next(4)]
  return {
    ...type !== undefined && { type },
    ...next(3) === 0 && { required: true },
    ...next(4) === 0 && { nullable: true },
    ...type === 'string' && next(3) === 0 && { format: pick(['email', 'uuid', 'date-time', 'date', 'uri'] as const) },
    ...type === 'string' && next(3) === 0 && { pattern: pick(['^[a-z]+$', 'b', '^.$']) },
    ...type === 'string' && next(5) === 0 && { enum: ['abc', 'x'] },
    ...(type === 'string' || type === 'array') && next(3) === 0 && { minLength: least, maxLength: least + more },
    ...(type === 'number' || type === 'integer') && next(3) === 0 && { minimum: least, maximum: least + more },
    ...type === 'array' && next(2) === 0 && { items: field({ next, pick }, depth + 1) },
    ...type === 'object' && next(2) === 0 && { properties: fields({ next, pick }, depth + 1), additionalFields: next(2) === 0 },
    ...type === undefined && next(3) === 0 &&
      { enum: [1, 'x', null, ...next(2) === 0 ? [] : Array.from({ length: 20 }, (_, index) => String(index))] }
  }
}

function fields (random: SeededChoices, depth: number): Record<string, Field> {
  return Object.fromEntries(names.filter(() => random.next(2) === 0).map((name) => [name, field(random, depth)]))
}

function json ({ next, pick }: SeededChoices, depth: number): unknown {
  switch (next(depth > 3 ? 5 : 8)) {
    case 0:
      return pick([0, 1, 2.5, -1, 7, 1e300])
    case 1:
      return next(2) === 0
    case 2:
      return null
    case 3:
    case 4:
      return pick(texts)
    case 5:
      return Array.from({ length: next(5) }, () => json({ next, pick }, depth + 1))
    default:
      return Object.fromEntries([...names, 'z'].filter(() => next(2) === 0).map((name) => [name, json({ next, pick }, depth + 1)]))
  }
}

interface Given {
  readonly params?: Record<string, unknown>
  readonly query?: Record<string, unknown>
  readonly body?: unknown
}

function compile (rules: RequestRules, ofTenant: boolean) {
  const faults = new FaultList()
  const compiled = compileRequest(rules, '', faults, {
    params: Object.keys(rules.params ?? {}),
    paginated: false,
    hardDelete: false,
    ofTenant
  })
  faults.throwIfAny()
  return compiled
}

/** The details of a rejection, sorted: ajv reports some in another order. */
function details (rules: RequestRules, { params = {}, query = {}, body }: Given, ofTenant: boolean): string[] {
  const { validate } = compile(rules, ofTenant)
  try {
    validate({ params, query, body })
    return []
  } catch (error) {
    if (!(error instanceof TenantryError) || !Array.isArray(error.extras['details'])) throw error
    return error.extras['details'].map((detail) => JSON.stringify(detail)).sort()
  }
}

/** The details of ajv that the check reports too: a text that is too long is not matched with its pattern. */
function comparable (own: string[], generated: string[]): string[] {
  return own.length < 50 && generated.length < 50
    ? generated.filter((detail) => own.includes(detail) || !detail.includes('"pattern"'))
    : own
}

test("bodies of a tenant's route are rejected for the same faults as by ajv", async (t) => {
  let refused = 0
  for (let seed = 1; seed <= 150; seed++) {
    const random = seededChoices(seed)
    const body = fields(random, 0)
    const rules: RequestRules = { body, additionalFields: random.next(3) === 0 }
    for (let round = 0; round < 6; round++) {
      const value = random.next(5) === 0 ? [json(random, 0), json(random, 0)] : json(random, 0)
      const [own, generated] = [details(rules, { body: value }, true), details(rules, { body: value }, false)]
      const same = comparable(own, generated)
      if (JSON.stringify(own) !== JSON.stringify(same)) t.strictSame(own, same, JSON.stringify({ seed, rules, value }))
      if (own.length > 0) refused++
    }
  }
  t.ok(refused > 300, `${refused} of 900 were rejected`)
})

test('a large body gets only its first error, a small one all errors', async (t) => {
  const rules: RequestRules = { body: { list: { type: 'array', items: { type: 'integer' } } } }
  t.equal(details(rules, { body: { list: Array.from({ length: 20 }, () => 'x') } }, true).length, 20)
  t.equal(details(rules, { body: { list: Array.from({ length: 80 }, () => 'x') } }, true).length, 50)
  t.equal(details(rules, { body: { list: Array.from({ length: 5000 }, () => 'x') } }, true).length, 1)
})

const urlTexts = [
  '',
  'x',
  'abc',
  '1',
  '-2',
  '2.5',
  '1e3',
  '007',
  '-0',
  'true',
  'false',
  'null',
  'NaN',
  'Infinity',
  '0x10',
  ' 1',
  '1_0',
  'a😀',
  'me@example.com',
  '2026-01-31'
] as const

/** If null is accepted, ajv converts a list of one item for non-text types only. */
function urlValue ({ next, pick }: SeededChoices, { nullable = false }: Field = {}): string | string[] {
  return next(4) === 0 ? Array.from({ length: (nullable ? 2 : 1) + next(3) }, () => pick(urlTexts)) : pick(urlTexts)
}

test("params and query strings of a tenant's route are rejected and coerced like by ajv", async (t) => {
  let [refused, coerced] = [0, 0]
  for (let seed = 1; seed <= 300; seed++) {
    const random = seededChoices(seed)
    // One or two fields: with more, one is nearly always wrong.
    const query = Object.fromEntries(names.slice(0, 1 + random.next(2)).map((name) => [name, field(random, 2)]))
    const rules: RequestRules = {
      ...random.next(4) === 0 ? { params: { id: field(random, 3) } } : {},
      query,
      additionalFields: random.next(4) > 0
    }
    for (let round = 0; round < 6; round++) {
      const id = random.pick(urlTexts)
      const texts = Object.fromEntries(
        [...Object.keys(query), 'z'].filter(() => random.next(2) === 0).map((name) => [name, urlValue(random, query[name])])
      )
      const given = () => ({ params: { id }, query: structuredClone(texts) })
      const [one, other] = [given(), given()]
      const [own, generated] = [details(rules, one, true), details(rules, other, false)]
      const same = comparable(own, generated)
      if (JSON.stringify(own) !== JSON.stringify(same)) t.strictSame(own, same, JSON.stringify({ seed, rules, texts, id }))
      if (own.length > 0) refused++
      else if (JSON.stringify(one) !== JSON.stringify(other)) t.strictSame(one, other, JSON.stringify({ seed, rules, texts, id }))
      else if (JSON.stringify(one) !== JSON.stringify(given())) coerced++
    }
  }
  t.ok(refused > 300 && coerced > 60, `of 1800, ${refused} were rejected and ${coerced} coerced`)
})

test('values that JSON cannot represent are not numbers, also in lists and where null is accepted', async (t) => {
  const rules: RequestRules = {
    query: { n: { type: 'number', nullable: true }, i: { type: 'integer' }, l: { type: 'array', items: { type: 'number' } } }
  }
  for (const text of ['1e999', '-1e999', '0x10', ' 1', '1 ', '.5', '5.', '+1', '1n', 'NaN']) {
    for (const query of [{ n: text }, { i: text }, { l: text }, { l: ['1', text] }]) {
      t.equal(details(rules, { query }, true).length, 1, JSON.stringify(query))
    }
  }
  const query = { n: '', i: '1e2', l: '-1.50' }
  t.strictSame(details(rules, { query }, true), [])
  t.strictSame(query, { n: null, i: 100, l: [-1.5] })
})

test('values of a long enum are looked up, so that many items do not block the server', async (t) => {
  const values = Array.from({ length: 1000 }, (_, index) => `v${index}`)
  let looks = 0
  const watched = new Proxy(values, {
    get (target, name, receiver) {
      if (typeof name === 'string' && /^\d+$/.test(name)) looks++
      return Reflect.get(target, name, receiver)
    }
  })
  const rules: RequestRules = { body: { items: { type: 'array', items: { type: 'string', enum: watched } } } }
  const { validate } = compile(rules, true)
  looks = 0
  validate({ params: {}, query: {}, body: { items: Array.from({ length: 80_000 }, () => 'v999') } })
  t.ok(looks <= 1000, `${looks} values were compared`)
  t.equal(details(rules, { body: { items: ['v999', 'w'] } }, true).length, 1)
})

test("a tenant's enum cannot contain objects and arrays: comparing them with each item takes seconds", async (t) => {
  const rules: RequestRules = { body: { a: { enum: [1, { a: 1 }, null, [1]] } } }
  const faults = new FaultList()
  compileRequest(rules, '', faults, { params: [], paginated: false, hardDelete: false, ofTenant: true })
  t.match(faults.faults, [{ pointer: '/body/a/enum/1', message: /not objects or arrays/ }, { pointer: '/body/a/enum/3' }])
  t.strictSame(details(rules, { body: { a: { a: 1 } } }, false), [], "the platform's enums may contain any JSON")
})

test('the cost of validating a request is bounded, also for a megabyte of items times rules', async (t) => {
  const of = (items: Field, item: unknown, count: number) =>
    details({ body: { a: { type: 'array', items } } }, { body: { a: new Array(count).fill(item) } }, true)
  const tooMuch = [
    JSON.stringify({
      path: '',
      message: 'the request has too much data to validate: send less at once',
      keyword: 'limit'
    })
  ]
  const manyFields = Object.fromEntries(Array.from({ length: 400 }, (_, index): [string, Field] => [`f${index}`, { type: 'integer' }]))
  const cases: [what: string, items: Field, item: unknown, fits: number, over: number][] = [
    ['numbers', { type: 'integer' }, 1, 200_000, 300_000],
    ['objects', { type: 'object', properties: { a: { type: 'integer' } } }, { a: 1 }, 40_000, 120_000],
    ['empty objects with many fields', { type: 'object', properties: manyFields }, {}, 40_000, 330_000],
    ['undeclared members', { type: 'object', properties: {}, additionalFields: true }, { a: 1, b: 1 }, 30_000, 90_000],
    ['addresses', { type: 'string', format: 'email' }, 'a@b.example', 50_000, 80_000],
    ['times', { type: 'string', format: 'date-time' }, '2026-01-01T12:00:00Z', 20_000, 43_000],
    ['empty texts with a small pattern', { type: 'string', pattern: '^a?$' }, '', 15_000, 300_000],
    ['empty texts with a large pattern', { type: 'string', pattern: '^(?:a?){200}$' }, '', 1000, 10_000]
  ]
  for (const [label, items, item, fits, over] of cases) {
    t.strictSame(of(items, item, fits), [], `${fits} ${label}`)
    t.strictSame(of(items, item, over), tooMuch, `${over} ${label}`)
  }
  const rules: RequestRules = {
    query: { a: { type: 'string', pattern: '^(?:a?){200}$' } },
    body: { a: { type: 'string', pattern: '^(?:a?){200}$' } }
  }
  const text = 'a'.repeat(1500)
  t.not(details(rules, { query: { a: text } }, true).join(), tooMuch.join())
  t.strictSame(details(rules, { query: { a: text }, body: { a: text } }, true), tooMuch, 'all parts of a request share the bound')
})
