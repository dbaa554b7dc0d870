/** Compiles document queries to Firestore requests, as plain data. The tenant is a part of the path. */
import { randomUUID } from 'node:crypto'
import type { Scope } from '../expressions/types.js'
import { type CollectionPlace, isPathSegment, isReserved, pathSegmentRule, placeOf } from '../firestore/paths.js'
import type { OrderKey, Shape } from '../firestore/types.js'
import { tenantOrPlatform } from '../identity/tenant-ref.js'
import { pointerTo } from '../schema/faults.js'
import type { DocumentQuery, Filter } from '../schema/query.js'
import { invalidInput } from '../validation/detail.js'
import type { BoundOperation } from './compiled-query.js'
import type { QueryContext } from './context.js'
import { finishPage, type Position, unknownCursor } from './cursor.js'
import { cursorLimit } from './cursor-pages.js'
import { cursorValue } from './document-cursor.js'
import { compileFirestoreFilters } from './document-filter.js'
import { type DocumentInput, type DocumentParts, resultKinds } from './document-parts.js'
import { allFilters } from './filter-value.js'
import { unfitFields, unfitFor } from './firestore-value.js'
import { refuse } from './request-value.js'

const maxBatch = 500 // documents
const maxOffset = 10_000 // documents; Firestore reads and charges each of them

/** Compiles a query for Firestore; may add faults. */
export function compileOnFirestore (query: DocumentQuery, pointer: string, context: QueryContext, parts: DocumentParts) {
  const { faults, firestore, origin } = context
  const { operation } = query
  const { collection, select, page } = parts
  // The collection belongs to the platform.
  const shared = firestore?.sharedCollections.has(collection) === true
  if (collection !== '' && !isPathSegment(collection)) {
    faults.add(pointerTo(pointer, 'collection'), `the name of a collection of Firestore ${pathSegmentRule}`)
  }
  if (shared && origin === 'tenant' && operation !== 'get' && operation !== 'query') {
    faults.add(pointer, `the collection "${collection}" is shared by all tenants: a tenant's route can only read it`)
  }
  for (const name of select ?? []) if (isReserved(name)) faults.add(pointerTo(pointer, 'select'), `"${name}" is reserved by Firestore`)
  const filters = compileFirestoreFilters(query.filters ?? [], pointerTo(pointer, 'filters'), context)
  const order = compileOrder(query.order, pointerTo(pointer, 'order'), context)

  if (parts.cursors !== undefined) checkCompared(query, pointer, context)
  // Firestore orders by id last on its own, but its cursors need the key to be named.
  const cursorOrder = order.some(({ field }) => field === null)
    ? order
    : [...order, { field: null, descending: order.at(-1)?.descending ?? false }]

  const only = select === null ? null : new Set(select)
  const shapes = { reduced: { only, without: new Set(parts.excluded) }, full: { only, without: new Set(parts.withheld) } }
  const common = (scope: Scope) => ({
    place: placeOf(tenantOrPlatform(scope.tenant), collection, shared),
    shape: scope.fullAccess ? shapes.full : shapes.reduced
  })

  const bind = (input: DocumentInput | undefined) => (scope: Scope): BoundOperation => {
    if (input !== undefined) return bindWrite(query, parts, input, common(scope), scope)
    if (operation === 'query' && parts.cursors !== undefined) {
      const { read } = parts.cursors
      const position = read(scope)
      return {
        operation: {
          ...common(scope),
          kind: 'query',
          filters: filters.read(scope),
          order: cursorOrder,
          limit: cursorLimit(page, scope),
          offset: 0,
          cursor: { after: valuesAfter(cursorOrder, position) }
        },
        resultKind: 'cursorPage',
        finish: (text) => finishPage(text, position)
      }
    }
    if (operation === 'query') {
      const [limit, offset] = [page.limit(scope), page.offset(scope)]
      if (offset > maxOffset) {
        throw invalidInput('/query/offset', `must be at most ${maxOffset}: Firestore reads all documents before the page`, 'maximum')
      }
      return { operation: { ...common(scope), kind: 'query', filters: filters.read(scope), order, limit, offset }, resultKind: 'page' }
    }
    const id = parts.id?.read(scope) ?? null
    // No document has such an id.
    return {
      operation: { ...common(scope), kind: operation === 'delete' ? 'delete' : 'get', id: id !== null && isPathSegment(id) ? id : null },
      resultKind: resultKinds[operation]
    }
  }
  return { references: filters.references, shared, bind }
}

/** The values of the order's keys in the document before the page, for Firestore's comparison; null at the start of the list. */
function valuesAfter (order: readonly OrderKey[], { after }: Position): readonly unknown[] | null {
  if (after === null) return null
  return order.map(({ field }, index) => {
    const text = after[index] ?? null
    // A list ordered by a field omits documents without the field.
    if (text === null) throw unknownCursor()
    if (field === null) {
      if (!isPathSegment(text)) throw unknownCursor()
      return text
    }
    const value = cursorValue(text)
    if (unfitFor(value) !== undefined) throw unknownCursor()
    return value
  })
}

const unequal: ReadonlySet<string> = new Set(['neq', 'gt', 'gte', 'lt', 'lte'])

/** Firestore orders a list by the fields in inequality filters, before the id. A cursor holds only the fields of `order`. */
function checkCompared ({ filters = [], order = [] }: DocumentQuery, pointer: string, { faults }: QueryContext): void {
  const ordered = new Set([order].flat().map(({ column }) => column))
  for (const [index, filter] of filters.entries()) {
    for (const column of comparedIn(filter)) {
      if (ordered.has(column)) continue
      faults.add(pointerTo(pointer, 'filters', index), `Firestore orders by the fields that a filter compares: add "${column}" to \`order\``)
    }
  }
}

function comparedIn (filter: Filter): string[] {
  return allFilters(filter).flatMap((each) =>
    'column' in each && each.operator !== undefined && unequal.has(each.operator) ? [each.column] : []
  )
}

function compileOrder (order: DocumentQuery['order'], pointer: string, { faults }: QueryContext): OrderKey[] {
  const keys = order === undefined ? [] : [order].flat()
  return keys.map(({ column, ascending = true, nullsFirst }, index) => {
    const at = Array.isArray(order) ? pointerTo(pointer, index) : pointer
    if (nullsFirst !== undefined) {
      faults.add(
        pointerTo(at, 'nullsFirst'),
        'Firestore has a fixed order of null: null comes before all other values, and documents without the field are omitted'
      )
    }
    const names = column.split('.')
    if (names.some(isReserved)) faults.add(pointerTo(at, 'column'), `"${column}" is reserved by Firestore`)
    return { field: column === 'id' ? null : names, descending: !ascending }
  })
}

function bindWrite (
  { operation, merge = false }: DocumentQuery,
  { id: documentId, kept }: DocumentParts,
  input: DocumentInput,
  common: { place: CollectionPlace, shape: Shape },
  scope: Scope
): BoundOperation {
  const drawn: string[] = []
  const newId = () => {
    const uuid = (scope.newId ?? randomUUID)()
    drawn.push(uuid)
    return uuid
  }
  const { documents, many, id } = input.read({ ...scope, newId })
  if (documents.length > maxBatch) throw invalidInput('/body', `must contain at most ${maxBatch} documents`, 'maxItems')
  const unfit = documents.flatMap((document, index) => unfitFields(document, many ? `/body/${index}` : '/body'))
  if (unfit.length > 0) throw refuse(unfit)
  if (id !== null && !isPathSegment(id)) {
    if (operation === 'update') return { operation: { ...common, kind: 'update', id: null, fields: {} }, resultKind: 'record' }
    throw invalidInput(documentId?.path ?? '/docId', `the id of a document ${pathSegmentRule}`, 'pattern')
  }
  if (operation === 'create' || operation === 'add') {
    const isNew = id === null || drawn.some((uuid) => id.includes(uuid))
    return { operation: { ...common, kind: 'create', id, isNew, documents, many }, resultKind: many ? 'records' : 'record' }
  }
  const [fields = {}] = documents
  if (operation === 'update' || merge) {
    return { operation: { ...common, kind: operation === 'update' ? 'update' : 'merge', id, fields }, resultKind: 'record' }
  }
  const keeps = kept.length > 0 && !scope.fullAccess
  return { operation: { ...common, kind: 'set', id, fields, ...keeps && { kept } }, resultKind: 'record' }
}
