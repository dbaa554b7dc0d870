/** The filters that queries of documents send to Firestore. */
import * as sdk from '@google-cloud/firestore'
import { test } from 'tap'
import { TenantryError } from '../../../lib/errors.js'
import type { Scope } from '../../../lib/expressions/types.js'
import { createReader } from '../../../lib/firestore/read.js'
import type { DocumentFilter, PageOperation } from '../../../lib/firestore/types.js'
import { createValues } from '../../../lib/firestore/values.js'
import { parseJson } from '../../../lib/json/parse.js'
import { compileDocumentQuery } from '../../../lib/queries/index.js'
import { FaultList } from '../../../lib/schema/faults.js'
import type { DocumentQuery, Filter, Operator } from '../../../lib/schema/query.js'
import { contextOf, documentFaultsOf, scopeOf } from './helpers.js'

const firestore = { isDefault: true, sharedCollections: new Set<string>() }

function operationOf (filter: Filter, scope: Partial<Scope>): PageOperation {
  const compiled = compileDocumentQuery(
    { collection: 'notes', operation: 'query', filters: [filter] },
    '/q',
    contextOf(new FaultList(), { firestore })
  )
  if (compiled?.store !== 'firestore') throw new Error('a query with faults, or of the SQL database')
  const { operation } = compiled.bind(scopeOf(scope))
  if (operation.kind !== 'query') throw new Error('no list')
  return operation
}

/** The filters of a request; null if nothing can match. */
function sentBy (filter: Filter, scope: Partial<Scope>): readonly DocumentFilter[] | null {
  return operationOf(filter, scope).filters
}

test('a text of the URL that Firestore cannot store as a number is compared as a text', async (t) => {
  const x = '89490200001234567890'
  const compared = (operator: 'eq' | 'neq' | 'gt', value = '{{query.x}}') =>
    sentBy({ column: 'a', operator, value }, { query: { x }, body: { x: parseJson(x) } })
  t.match(compared('eq'), [{ operator: '==', value: x }])
  t.match(compared('neq'), [{ operator: '!=', value: x }])
  t.throws(() => compared('gt'), { code: 'TENANTRY_VALIDATION_FAILED' }, 'smaller numbers of documents would be lost')
  t.throws(() => compared('eq', '{{body.x}}'), { code: 'TENANTRY_VALIDATION_FAILED' }, 'a number of a body')
})

const nan = { $number: 'NaN' }

function withBody (operator: Operator, x: unknown): readonly DocumentFilter[] | null {
  return sentBy({ column: 'a', operator, value: '{{body.x}}' }, { body: { x } })
}

test("Google's client accepts every filter with null or NaN that is not a 400", async (t) => {
  const client = new sdk.Firestore({ projectId: 'test' })
  t.teardown(() => client.terminate())
  const { query } = createReader(sdk, client, createValues(sdk, client, new Set()))
  const operators = ['eq', 'neq', 'gt', 'gte', 'lt', 'lte', 'in', 'array-contains', 'array-contains-any', 'overlaps'] as const
  for (const operator of operators) {
    for (const x of [null, nan, [null], [nan], [null, 1], [nan, 1], [null, nan]]) {
      for (const filter of [{ column: 'a', operator, value: '{{body.x}}' }, { column: 'a', operator, value: '{{query.x}}' }]) {
        const title = `${operator} ${filter.value} ${JSON.stringify(x)}`
        try {
          query(operationOf(filter, { body: { x }, query: { x: JSON.stringify(x) } }))
          t.pass(title)
        } catch (error) {
          t.equal(error instanceof TenantryError && error.code, 'TENANTRY_VALIDATION_FAILED', title)
        }
      }
    }
  }
})

test('NaN is neither greater nor less than any value, and equals itself', async (t) => {
  t.equal(withBody('gt', nan), null)
  t.equal(withBody('lt', nan), null)
  t.strictSame(withBody('gte', nan), [{ kind: 'field', field: ['a'], operator: '==', value: nan }])
  t.strictSame(withBody('lte', nan), withBody('eq', nan))
  const x = JSON.stringify(nan)
  t.match(sentBy({ column: 'a', operator: 'gt', value: '{{query.x}}' }, { query: { x } }), [{ operator: '>', value: x }])
})

test('`in` compares with null and NaN on their own: a list of Firestore never matches them', async (t) => {
  t.match(withBody('in', [1, null, 'b', nan]), [{
    kind: 'or',
    filters: [{ operator: '==', value: null }, { operator: '==', value: nan }, { operator: 'in', value: [1, 'b'] }]
  }])
  t.match(withBody('in', [1, null]), [{ kind: 'or', filters: [{ operator: '==', value: null }, { operator: '==', value: 1 }] }])
  t.match(withBody('in', [null]), [{ operator: '==', value: null }])
})

test('null and NaN in an array are refused, since Firestore does not find them', async (t) => {
  for (const [operator, x] of [['array-contains', nan], ['array-contains-any', [null]], ['overlaps', [1, nan]]] as const) {
    t.throws(() => withBody(operator, x), { code: 'TENANTRY_VALIDATION_FAILED', extras: { details: [{ path: '/body/x', message: /null or NaN/ }] } }, operator)
    const query: DocumentQuery = { collection: 'notes', operation: 'query', filters: [{ column: 'a', operator, value: x }] }
    t.match(documentFaultsOf(query, { firestore }), [/^\/q\/filters\/0\/value: .*null or NaN/], operator)
  }
})

test('a text of the URL in a list of templates counts as each JSON value that it can represent', async (t) => {
  const value = ['{{query.x}}', 'a', '{{query.y}}']
  const sent = (operator: Operator, query: Record<string, unknown>) => sentBy({ column: 'a', operator, value }, { query })
  t.match(sent('in', { x: '7' }), [{ operator: 'in', value: ['7', 7, 'a'] }])
  t.match(sent('overlaps', { x: 'b', y: 'true' }), [{ operator: 'array-contains-any', value: ['b', 'a', 'true', true] }])
  t.match(sent('in', { x: '89490200001234567890' }), [{ operator: 'in', value: ['89490200001234567890', 'a'] }])
  const many = Array.from({ length: 16 }, (_item, index) => `{{query.x${index}}}`)
  const query = Object.fromEntries(many.map((_item, index) => [`x${index}`, String(index)]))
  const refused = { code: 'TENANTRY_VALIDATION_FAILED', extras: { details: [{ keyword: 'maxItems' }] } }
  t.throws(() => sentBy({ column: 'a', operator: 'in', value: many }, { query }), refused, '32 values')
})
