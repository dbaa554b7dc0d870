/** Combinations of filters that Firestore refuses. The emulators accept them. */
import { test } from 'tap'
import { translate } from '../../../lib/firestore/failures.js'
import type { DocumentQuery, Filter } from '../../../lib/schema/query.js'
import type { RequestRules } from '../../../lib/schema/route.js'
import { documentFaultsOf } from './helpers.js'

const firestore = { isDefault: true, sharedCollections: new Set<string>() }

function faultsOf (filters: Filter[], rules?: RequestRules, store: DocumentQuery['store'] = 'firestore'): string[] {
  return documentFaultsOf({ collection: 'notes', operation: 'query', filters, store }, { firestore, rules })
}

const has = (column: string, value: unknown = '{{query.has}}'): Filter => ({ column, operator: 'array-contains', value })
const not = (column: string, value: unknown = '{{body.not}}'): Filter => ({ column, operator: 'neq', value })
const list = (column: string, length: number): Filter => ({ column, operator: 'in', value: Array.from({ length }, (_, index) => index) })

test('two filters of arrays in one query are a fault', (t) => {
  const overlaps: Filter = { column: 'b', operator: 'overlaps', value: ['x', 'y'] }
  const refused: Filter[][] = [
    [has('a'), has('b')],
    [has('a', 'x'), overlaps],
    [{ and: [has('a'), { column: 'c', value: 1 }] }, overlaps],
    [has('a'), { or: [{ column: 'c', value: 1 }, overlaps] }]
  ]
  for (const filters of refused) t.match(faultsOf(filters), [/^\/q\/filters: .*array-contains/], JSON.stringify(filters))
  t.same(faultsOf([{ or: [has('a', 'x'), overlaps] }]), [], 'one in each member of an `or`')
  const optional: Filter = { column: 'b', operator: 'array-contains', value: '{{query.b}}', optional: true }
  t.same(faultsOf([has('a'), optional]), [], 'one of them is optional')
  t.same(faultsOf([has('a'), { or: [has('b'), { column: 'c', value: 1 }] }]), [], 'one of them can be missing')
  t.end()
})

test('`neq` twice in one query is a fault', (t) => {
  t.match(faultsOf([not('a'), not('b', 1)]), [/^\/q\/filters: .*`neq`/])
  t.match(faultsOf([{ or: [not('a', 1), not('b', 2)] }]), [/^\/q\/filters: .*`neq`/])
  t.same(faultsOf([not('a'), { column: 'b', operator: 'neq', value: '{{query.b}}', optional: true }]), [])
  t.end()
})

test('more than 30 combinations of values are a fault', (t) => {
  t.match(faultsOf([list('a', 4), list('b', 8)]), [/^\/q\/filters: .*30.*32/])
  t.match(faultsOf([list('a', 10), { or: [list('b', 3), { column: 'c', value: 1 }] }]), [/^\/q\/filters: .*30.*40/])
  t.same(faultsOf([list('a', 5), list('b', 6), { column: 'c', operator: 'in', value: '{{query.c}}' }]), [])
  t.same(faultsOf([{ or: [list('a', 15), list('b', 15)] }]), [])
  t.end()
})

test('`neq` of a text whose type is open is a fault beside `or` and lists', (t) => {
  const open = not('a', '{{query.not}}')
  const either: Filter = { or: [{ column: 'b', value: 1 }, { column: 'c', value: 2 }] }
  const operators = ['in', 'array-contains-any', 'overlaps'] as const
  const lists = operators.map((operator): Filter => ({ column: 'b', operator, value: '{{body.b}}' }))
  for (const other of [either, ...lists, list('b', 2)]) {
    const title = JSON.stringify(other)
    t.match(faultsOf([other, open]), [/^\/q\/filters\/1\/value: .*`neq`.*`request`/], title)
    for (const type of ['string', 'number'] as const) t.same(faultsOf([other, open], { query: { not: { type } } }), [], `${type} ${title}`)
    t.same(faultsOf([other, not('a')]), [], title)
  }
  for (const value of ['{{headers.x-not}}', '{{query.not.in}}']) t.same(faultsOf([list('b', 2), not('a', value)]), [], `no rule can declare ${value}`)
  t.same(faultsOf([list('b', 1), open]), [], 'a list of one')
  t.same(faultsOf([{ column: 'b', value: '{{query.b}}' }, open]), [], 'a value of the request')
  t.end()
})

test('the SQL database has no such faults', (t) => {
  t.same(faultsOf([has('a'), has('b'), not('a'), not('b'), list('a', 4), list('b', 8), not('c', '{{query.not}}')], undefined, 'sql'), [])
  t.end()
})

test('the error of a query that Firestore rejects names combinations of filters', (t) => {
  const error = Object.assign(new Error('invalid'), { code: 3 })
  t.match(translate(error), { code: 'TENANTRY_INVALID_VALUE', message: /combinations of filters/ })
  t.end()
})
