/** A document whose routes use every operation on documents, with any store. */
import type { DocumentQuery } from '../../../lib/schema/query.js'
import type { Route } from '../../../lib/schema/route.js'
import type { TestDocument } from '../../helpers/server.js'

type Filters = NonNullable<DocumentQuery['filters']>

const one = (
  method: Route['method'],
  path: string,
  query: Omit<DocumentQuery, 'collection'> & { collection?: string },
  more: Partial<Route> = {}
): Route => ({ path, method, firebaseQueries: [{ collection: 'notes', ...query }], ...more })

const docId = '{{params.id}}'

const pages = { collection: 'listed', operation: 'query', pagination: 'cursor' } as const

/** Filters whose value is declared as a text, by the paths of their routes. */
const ofTexts: Readonly<Record<string, Filters>> = {
  '/eq-text': [{ column: 'count', value: '{{query.x}}' }],
  '/neq-text': [{ column: 'count', operator: 'neq', value: '{{query.x}}' }],
  '/gt-text': [{ column: 'count', operator: 'gt', value: '{{query.x}}' }],
  '/in-text': [{ column: 'count', operator: 'in', value: '{{query.x}}' }],
  '/has-text': [{ column: 'tags', operator: 'array-contains', value: '{{query.x}}' }]
}

/** Routes that list notes by filters, by their paths. */
export const filtered: Readonly<Record<string, Filters>> = {
  '/eq': [{ column: 'kind', value: '{{query.x}}' }],
  '/eq-optional': [{ column: 'kind', value: '{{query.x}}', optional: true }],
  '/neq': [{ column: 'kind', operator: 'neq', value: '{{query.x}}' }],
  '/gt': [{ column: 'count', operator: 'gt', value: '{{query.x}}' }],
  '/from-nan': [{ column: 'kind', operator: 'gte', value: { $number: 'NaN' } }],
  '/between': [{ column: 'count', operator: 'gte', value: 2 }, { column: 'count', operator: 'lt', value: 20 }],
  '/in': [{ column: 'kind', operator: 'in', value: '{{query.x}}' }],
  '/in-odd': [{ column: 'kind', operator: 'in', value: ['a', null, { $number: 'NaN' }] }],
  '/is-true': [{ column: 'open', operator: 'is', value: true }],
  '/has': [{ column: 'tags', operator: 'array-contains', value: '{{query.x}}' }],
  '/has-any': [{ column: 'tags', operator: 'array-contains-any', value: '{{query.x}}' }],
  '/overlaps': [{ column: 'tags', operator: 'overlaps', value: ['x', 'z'] }],
  '/either': [{ or: [{ column: 'kind', value: 'a' }, { column: 'count', value: 20 }] }],
  '/either-optional': [{
    or: [{ column: 'kind', value: '{{query.kind}}', optional: true }, { column: 'count', value: '{{query.count}}', optional: true }]
  }],
  '/object': [{ column: 'owner', value: { name: 'Ben' } }],
  '/inside': [{ column: 'owner.name', value: 'Ada' }],
  '/nested': [{ column: 'open', operator: 'is', value: false }, {
    or: [{ column: 'kind', value: 'a' }, { and: [{ column: 'kind', value: 'b' }, { column: 'count', value: 20 }] }]
  }],
  '/by-id': [{ column: 'id', operator: 'in', value: '{{query.x}}' }],
  '/at': [{ column: 'at', value: '{{query.x}}' }]
}

export const documentRoutes: readonly Route[] = [
  one('post', '/notes', { operation: 'create' }),
  one('post', '/notes/:id', { operation: 'create', docId }),
  one('get', '/notes', { operation: 'query', order: { column: 'rank' } }),
  one('get', '/notes/:id', { operation: 'get', docId }),
  one('put', '/notes/:id', { operation: 'set', docId }),
  one('patch', '/notes/:id', { operation: 'update', docId }),
  one('delete', '/notes/:id', { operation: 'delete', docId }),
  // `..` in a path is a path itself.
  one('get', '/any', { operation: 'get', docId: '{{query.id}}' }),
  one('patch', '/any', { operation: 'update', docId: '{{query.id}}', data: { kind: 'taken' } }),
  one('delete', '/any', { operation: 'delete', docId: '{{query.id}}' }),
  one('put', '/merged/:id', { operation: 'set', merge: true, docId }),
  one('get', '/descending', { operation: 'query', order: { column: 'rank', ascending: false } }),
  one('get', '/selected', { operation: 'query', select: 'rank, kind', order: { column: 'rank' } }),
  one('get', '/selected/:id', { operation: 'get', docId, select: 'kind' }),
  one('get', '/discreet/:id', { operation: 'get', docId }, { excludeFields: ['secret'] }),
  one('get', '/discreet', { operation: 'query', excludeFields: ['secret'], filters: [{ column: 'kind', value: 'secret' }] }),
  one('put', '/discreet/:id', { operation: 'set', docId }, { excludeFields: ['secret'] }),
  {
    path: '/discreet/:id',
    method: 'post',
    excludeFields: ['secret'],
    firebaseQueries: [
      { collection: 'notes', operation: 'set', docId, data: {}, alias: 'first' },
      { collection: 'notes', operation: 'set', docId, alias: 'second' }
    ]
  },
  ...Object.entries(filtered).map(([path, filters]) => one('get', path, { operation: 'query', filters, limit: 50 })),
  ...Object.entries(ofTexts).map(([path, filters]) =>
    one('get', path, { operation: 'query', filters, limit: 50 }, { request: { query: { x: { type: 'string' } } } })
  ),
  {
    path: '/copy/:id',
    method: 'post',
    firebaseQueries: [
      { collection: 'notes', operation: 'get', docId, alias: 'source' },
      {
        collection: 'copies',
        operation: 'set',
        docId,
        data: { of: '{{results.source.id}}', kind: '{{results.source.kind}}' },
        alias: 'copy'
      },
      { collection: 'notes', operation: 'update', docId, data: { copied: true }, alias: 'mark' },
      { collection: 'notes', operation: 'get', docId, alias: 'after' }
    ]
  },
  {
    path: '/both/:id',
    method: 'post',
    firebaseQueries: [
      { collection: 'notes', operation: 'set', docId, data: { kind: 'first' }, alias: 'first' },
      { collection: 'notes', operation: 'update', docId: '{{body.other}}', data: { kind: 'second' }, alias: 'second' }
    ]
  },
  one('get', '/pages', { ...pages, order: { column: 'group' } }),
  one('get', '/pages-back', { ...pages, order: { column: 'group', ascending: false } }),
  one('get', '/pages-by-id', pages),
  one('get', '/pages-typed', { ...pages, order: [{ column: 'deep.at' }, { column: 'n', ascending: false }] }),
  one('get', '/pages-filtered', { ...pages, filters: [{ column: 'group', value: '{{query.x}}' }] }),
  one('put', '/listed/:id', { collection: 'listed', operation: 'set', docId }),
  one('delete', '/listed/:id', { collection: 'listed', operation: 'delete', docId }),
  one('get', '/copies/:id', { collection: 'copies', operation: 'get', docId })
]

/** Tenants `a` and `b` each have one of their own. */
export const storesDocument = (database: TestDocument): TestDocument => ({ ...database, routes: [...documentRoutes] })
