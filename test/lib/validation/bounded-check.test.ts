/** Compared with ajv, and with schemas whose work has no bound. */
import { Ajv2020 } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import t from 'tap'
import { type BoundedCheck, createBoundedCheck } from '../../../lib/validation/bounded-check.js'
import { type SeededChoices, seededChoices } from '../../helpers/random.js'

type Schema = Parameters<typeof createBoundedCheck>[0]

function faults (result: ReturnType<BoundedCheck>): string {
  if (result === 'unfinished') return result
  return result.map(({ keyword, instancePath }) => `${keyword} ${instancePath}`).join(', ')
}
const check = (schema: Schema, value: unknown) => faults(createBoundedCheck(schema)(value))

const names = ['a', 'b', 'c/d', 'constructor'] as const
const values = [null, true, 0, 1, 2, 3.5, -1, '', 'x', 'abc', 'a😀', 'me@example.com', '2026-01-31', [], {}, [1, 'x'], { a: 1 }] as const

function value (random: SeededChoices, depth: number): unknown {
  if (depth > 2 || random.next(2) === 0) return random.pick(values)
  if (random.next(2) === 0) return Array.from({ length: random.next(4) }, () => value(random, depth + 1))
  return members(random, () => value(random, depth + 1))
}

function members (random: SeededChoices, make: () => unknown): Record<string, unknown> {
  return Object.fromEntries(names.filter(() => random.next(2) === 0).map((name) => [name, make()]))
}

function schema (random: SeededChoices, depth: number): unknown {
  const { next, pick } = random
  if (next(15) === 0) return next(3) > 0
  if (depth > 0 && next(12) === 0) return { $ref: pick(['#/$defs/a', '#/$defs/b', '#/$defs/c~1d']) }
  const inner = () => depth > 2 ? { type: pick(['string', 'number', 'object']) } : schema(random, depth + 1)
  const list = () => Array.from({ length: 1 + next(3) }, inner)
  const someNames = () => names.filter(() => next(2) === 0)
  const keywords: Record<string, () => unknown> = {
    type: () => next(3) === 0 ? [pick(['string', 'null']), pick(['number', 'array', 'object'])] : pick(['string', 'integer', 'array', 'object']),
    enum: () => [pick(values), pick(values), value(random, 1)],
    const: () => value(random, 2),
    minimum: () => next(3),
    exclusiveMaximum: () => next(4),
    multipleOf: () => pick([0.5, 2]),
    minLength: () => next(3),
    maxLength: () => next(4),
    pattern: () => pick(['^[a-z]+$', 'b']),
    format: () => pick(['email', 'date', 'uri', 'uuid']),
    minItems: () => next(2),
    maxItems: () => next(3),
    prefixItems: list,
    items: inner,
    contains: inner,
    minContains: () => next(3),
    maxContains: () => 1 + next(2),
    minProperties: () => next(2),
    maxProperties: () => next(3),
    required: someNames,
    properties: () => members(random, inner),
    additionalProperties: inner,
    propertyNames: () => ({ maxLength: next(6) }),
    dependentRequired: () => members(random, someNames),
    dependentSchemas: () => members(random, inner),
    allOf: list,
    anyOf: list,
    oneOf: list,
    not: inner,
    if: inner,
    then: inner,
    else: inner
  }
  const used = Object.keys(keywords).filter(() => next(8) === 0)
  // With shorter lists, ajv ignores the keywords beside `prefixItems`.
  const isTuple = used.includes('prefixItems')
  const kept = isTuple ? used.filter((name) => name === 'prefixItems' || name === 'items') : used
  return Object.fromEntries(kept.map((name) => [name, keywords[name]?.()]))
}

t.test('accepts the values that ajv accepts', async (t) => {
  const random = seededChoices(7)
  let accepted = 0
  for (let round = 0; round < 100; round++) {
    // References go to smaller definitions, so that none refers to itself.
    const $defs = Object.fromEntries(names.map((name) => [name, schema(random, 3)]))
    const whole = { $defs: JSON.parse(JSON.stringify($defs).replaceAll('"$ref"', '"$comment"')), allOf: [schema(random, 0)] }
    const ajv = new Ajv2020({ strict: false, validateSchema: false, ownProperties: true, logger: false })
    formats.default(ajv)
    const validate = ajv.compile(whole)
    const bounded = createBoundedCheck(whole)
    for (let each = 0; each < 20; each++) {
      const given = value(random, 0)
      const expected = validate(given)
      if (expected) accepted++
      const found = faults(bounded(given))
      if ((found === '') !== expected) t.fail(found, { schema: JSON.stringify(whole), value: JSON.stringify(given), expected })
    }
  }
  t.ok(accepted > 200 && accepted < 1800, `${accepted} of 2,000 are valid`)
})

t.test('reports the keyword and the place', async (t) => {
  const item = { type: 'object', properties: { id: { type: 'integer' } }, required: ['id'], additionalProperties: false }
  t.equal(check({ type: 'array', items: item }, [{ id: 1 }, { id: 'x' }]), 'type /1/id')
  t.equal(check({ properties: { 'a/b': { anyOf: [{ type: 'string' }, { type: 'null' }] } } }, { 'a/b': 1 }), 'type /a~1b, type /a~1b, anyOf /a~1b')
  for (const list of [[], ['a']]) t.equal(check({ properties: { list: { contains: { type: 'integer' } } } }, { list }), 'contains /list')
  t.equal(check({ additionalProperties: false, patternProperties: { '^x-': {} } }, { 'x-a': 1, y: 1 }), 'additionalProperties ')
})

t.test('schemas of draft 7 and of OpenAPI are understood', async (t) => {
  const tuple = { items: [{ type: 'string' }], additionalItems: false }
  t.equal(check(tuple, ['a']), '')
  t.equal(check(tuple, ['a', 1]), 'false schema /1')
  t.equal(check({ dependencies: { a: ['b'], c: { required: ['d'] } } }, { a: 1 }), 'required ')
  t.equal(check({ dependencies: { c: { required: ['d'] } } }, { c: 1 }), 'required ')
  t.equal(check({ type: 'string', nullable: true }, null), '')
})

t.test('references are followed, also to themselves', async (t) => {
  const tree = { type: 'object', properties: { name: { type: 'string' }, children: { type: 'array', items: { $ref: '#' } } } }
  t.equal(check(tree, { children: [{ children: [{ name: 1 }] }] }), 'type /children/0/children/0/name')
  t.equal(check({ properties: { a: { type: 'string' }, b: { $ref: '#/properties/a' } } }, { b: 1 }), 'type /b')
  for (const $ref of ['https://example.com/x', '#name', '#/$defs/missing', '#/%E0%A4%A']) t.equal(check({ $ref }, 1), '', `${$ref} is not checked`)
})

t.test('a check without a bound ends', async (t) => {
  t.equal(check({ $ref: '#' }, 1), 'unfinished')
  const $defs: Record<string, unknown> = { d60: { type: 'object' } }
  for (let level = 0; level < 60; level++) $defs[`d${level}`] = { allOf: Array(2).fill({ $ref: `#/$defs/d${level + 1}` }) }
  t.equal(check({ $defs, $ref: '#/$defs/d0' }, {}), 'unfinished', 'references that multiply')
  t.equal(check({ $defs: { a: { not: { $ref: '#/$defs/a' } } }, $ref: '#/$defs/a' }, {}), 'unfinished', 'a paradox')
  const numbers = Array.from({ length: 100_000 }, (_, index) => index)
  t.equal(check({ items: { enum: numbers } }, numbers), 'unfinished', 'a long list of values, for many items')
  t.equal(check({ allOf: numbers.map(() => ({ maxLength: 1_000_000 })) }, 'x'.repeat(100_000)), 'unfinished', 'a long text, many times')
  let deep: object = {}
  for (let level = 0; level < 5000; level++) deep = { not: deep }
  t.equal(check({ not: deep }, 1), 'unfinished', 'a deep schema')
  const patterns = numbers.slice(0, 2000).map((number) => ({ pattern: `^(?:x{100}){9}${number}` }))
  t.equal(check({ allOf: patterns }, 'y'), 'pattern ', 'the first ones are checked')
  t.equal(check({ allOf: [...patterns.slice(0, 2000).map(({ pattern }) => ({ pattern: `${pattern}|y` })), { maxLength: 0 }] }, 'y'), 'maxLength ')
})

t.test('a long name costs nothing in errors that combined schemas drop, and is shortened in the others', async (t) => {
  const name = '/'.repeat(100_000)
  const union = { anyOf: [{ type: 'string' }, { type: 'object' }, { type: 'array' }] }
  const escaped = t.capture(String.prototype, 'replaceAll', String.prototype.replaceAll)
  const checked = check({ additionalProperties: { items: union } }, { [name]: Array.from({ length: 100 }, () => []) })
  const refused = check({ additionalProperties: { items: union } }, { [name]: [1] })
  const characters = escaped().reduce((sum, { receiver }) => sum + String(receiver).length, 0)
  t.equal(checked, '')
  t.equal(refused.slice(0, 217), `type /${'~1'.repeat(100)}…/0, type /`)
  t.ok(refused.length < 1000)
  t.ok(characters < 2000, `${characters} characters were searched`)
})

t.test('counts long values of keywords', async (t) => {
  const many = Array.from({ length: 5000 }, (_, index) => `x${index}`)
  const items = Array.from({ length: 1000 }, () => ({}))
  const unknown = Object.fromEntries(many.map((name) => [name, 1]))
  t.equal(check({ items: { not: { type: 'string', ...unknown } } }, items), 'unfinished', 'unknown keywords behind one that fails')
  const text = 'x'.repeat(50_000)
  t.equal(check({ items: { not: { const: `${text}y` } } }, Array(1000).fill(`${text}z`)), 'unfinished', 'compared texts')
  t.equal(check({ contains: { type: 'string' }, minContains: [2], maxContains: [0] }, ['a']), '', 'invalid values are ignored')
  t.equal(check({ required: [['a'], 1] }, {}), '')
})
