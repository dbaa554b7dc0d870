import t from 'tap'
import { compileTransform, type TransformedResult } from '../../../lib/compiler/transform.js'
import { unknownResult } from '../../../lib/expressions/known-members.js'
import { noScope } from '../../../lib/expressions/no-scope.js'
import type { ResultForm } from '../../../lib/expressions/result.js'
import type { TemplateContext } from '../../../lib/expressions/template.js'
import type { Scope } from '../../../lib/expressions/types.js'
import { isRecord } from '../../../lib/json/plain-value.js'
import { FaultList } from '../../../lib/schema/faults.js'
import type { Transform } from '../../../lib/schema/route.js'

function context (): TemplateContext {
  return { faults: new FaultList(), sources: new Set(['body', 'params', 'query', 'auth', 'tenant', 'results']), env: {} }
}

const unknownForm: TransformedResult = { several: false, names: null, item: unknownResult, result: unknownResult }

const formOf = (result: unknown): ResultForm => isRecord(result) && 'data' in result ? 'wrapped' : 'record'

function apply (transform: Transform, result: unknown, scope: Partial<Scope> = {}, form = formOf(result)): unknown {
  const within = context()
  const compiled = compileTransform(transform, '', within, unknownForm)
  within.faults.throwIfAny()
  return compiled?.apply(result, { ...noScope, ...scope }, form)
}

const total: Transform = { fields: { total: 'item.price * item.quantity' } }

t.test('fields are computed for each record of a list, or for a single record', async (t) => {
  const pagination = { limit: 20, offset: 0, total: 2 }
  t.strictSame(apply(total, { data: [{ price: 2, quantity: 3 }, { price: 1.5, quantity: 2 }], pagination }), {
    data: [{ price: 2, quantity: 3, total: 6 }, { price: 1.5, quantity: 2, total: 3 }],
    pagination
  })
  t.strictSame(apply(total, { data: [{ price: 2, quantity: 3 }] }), { data: [{ price: 2, quantity: 3, total: 6 }] })
  t.strictSame(apply(total, { price: 2, quantity: 3 }), { price: 2, quantity: 3, total: 6 })
  t.strictSame(
    apply(total, { price: 2, quantity: 3, data: [1] }, {}, 'record'),
    { price: 2, quantity: 3, data: [1], total: 6 },
    'a column named data does not make a list'
  )
})

t.test('an expression that reads only the result becomes a member of the response', async (t) => {
  t.strictSame(
    apply({ fields: { pages: 'result.pagination.total / result.pagination.limit', share: 'item.n / size(result.data)' } }, {
      data: [{ n: 1 }, { n: 2 }],
      pagination: { limit: 2, offset: 0, total: 4 }
    }),
    { data: [{ n: 1, share: 0.5 }, { n: 2, share: 1 }], pagination: { limit: 2, offset: 0, total: 4 }, pages: 2 }
  )
  t.strictSame(apply({ fields: { twice: 'result.n * 2' } }, { n: 4 }), { n: 4, twice: 8 })
})

t.test('operations compute in order, and see earlier computed fields', async (t) => {
  t.strictSame(
    apply(
      {
        fields: { a: 'item.n + 1' },
        operations: [{ type: 'compute', fields: { b: 'item.a * 2' } }, { type: 'compute', fields: { a: '"{{auth.sub}}"' } }]
      },
      { n: 1 },
      { auth: { sub: 'ann' } }
    ),
    { n: 1, a: 'ann', b: 4 }
  )
})

t.test('an expression that fails gives null for that field of that record', async (t) => {
  t.strictSame(
    apply({ fields: { sum: 'item.a + 1', upper: 'item.name.upperAscii()', ok: '1 + 1' } }, {
      data: [{ a: null, name: 5 }, { a: 1, name: 'x' }, {}]
    }),
    {
      data: [{ a: null, name: 5, sum: null, upper: null, ok: 2 }, { a: 1, name: 'x', sum: 2, upper: 'X', ok: 2 }, {
        sum: null,
        upper: null,
        ok: 2
      }]
    }
  )
  t.strictSame(apply(total, { data: [null, 5, 'x'] }), { data: [null, 5, 'x'] }, 'values that are not records stay unchanged')
})

t.test('a field with the whole record or response is not circular, so that it can be written as JSON', async (t) => {
  t.strictSame(apply({ fields: { whole: 'item', within: '{"of": item}' } }, { n: 1 }), {
    n: 1,
    whole: { n: 1 },
    within: { of: { n: 1, whole: { n: 1 } } }
  })
  t.strictSame(apply({ fields: { all: 'result.data' } }, { data: [{ n: 1 }] }), { data: [{ n: 1 }], all: [{ n: 1 }] })
  t.strictSame(apply({ fields: { all: 'result' } }, { data: [{ n: 1 }] }), { data: [{ n: 1 }], all: { data: [{ n: 1 }] } })
})

t.test('references are listed, and faults are reported', async (t) => {
  t.strictSame(compileTransform({ fields: { a: 'auth.role == "x"', b: '{{query.q}}' } }, '', context(), unknownForm)?.references, [{
    source: 'auth',
    path: ['role']
  }, { source: 'query', path: ['q'] }])
  t.equal(compileTransform({}, '', context(), unknownForm), null)
  const within = context()
  t.equal(
    compileTransform(
      { fields: { a: 'itm.x', b: 'item.' }, operations: [{ type: 'compute', fields: { 'c/d': '{{secret:K}}' } }] },
      '/t',
      within,
      unknownForm
    ),
    null
  )
  t.match(within.faults.faults, [{ pointer: '/t/fields/a', suggestion: 'item' }, { pointer: '/t/fields/b' }, {
    pointer: '/t/operations/0/fields/c~1d',
    message: /secret cannot be used in a transform/
  }])
})

t.test('all computed fields of one response share one budget', async (t) => {
  const records = (count: number) => ({ data: Array.from({ length: count }, () => ({ text: 'x'.repeat(900_000) })) })
  const copy: Transform = { fields: { copy: 'item.text', n: '1 + 1' } }
  t.match(apply(copy, records(18)), { data: Array.from({ length: 18 }, () => ({ n: 2 })) })
  t.throws(() => apply(copy, records(19)), { code: 'TENANTRY_EXPRESSION_LIMIT' })
})
