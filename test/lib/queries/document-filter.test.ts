/** The filters that queries of documents send to Firestore. */
import { test } from 'tap'
import type { Scope } from '../../../lib/expressions/types.js'
import type { DocumentFilter } from '../../../lib/firestore/types.js'
import { parseJson } from '../../../lib/json/parse.js'
import { compileDocumentQuery } from '../../../lib/queries/index.js'
import { FaultList } from '../../../lib/schema/faults.js'
import type { Filter } from '../../../lib/schema/query.js'
import { contextOf, scopeOf } from './helpers.js'

const firestore = { isDefault: true, sharedCollections: new Set<string>() }

/** The filters of a request; null if nothing can match. */
function sentBy (filter: Filter, scope: Partial<Scope>): readonly DocumentFilter[] | null | undefined {
  const compiled = compileDocumentQuery(
    { collection: 'notes', operation: 'query', filters: [filter] },
    '/q',
    contextOf(new FaultList(), { firestore })
  )
  if (compiled?.store !== 'firestore') throw new Error('a query with faults, or of the SQL database')
  const { operation } = compiled.bind(scopeOf(scope))
  return operation.kind === 'query' ? operation.filters : undefined
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
