/** Document queries (`firebaseQueries`). The documents are in the SQL database or in Firestore, with the same semantics. */
import type { JsonSchema } from '../expressions/types.js'
import { pointerTo } from '../schema/faults.js'
import type { DocumentQuery } from '../schema/query.js'
import type { RouteQuery } from './compiled-query.js'
import { type QueryContext, uniqueReferences } from './context.js'
import { cursorParameters } from './cursor-pages.js'
import { compileDocumentCursors, compileDocumentOrder } from './document-cursor.js'
import { compileOnFirestore } from './document-firestore.js'
import { checkMembers, compileDocumentInput, compileId, type DocumentParts, faultOfExcluded, resultKinds, selectOf } from './document-parts.js'
import { compileOnSql } from './document-sql.js'
import { compilePage } from './page.js'
import { documentInput } from './record-schema.js'

const openSchema: JsonSchema = Object.freeze({ type: 'object', additionalProperties: true })

/** The schema of a document: its id, and any other fields. */
const documentSchema: JsonSchema = Object.freeze({ ...openSchema, properties: { id: { type: 'string' } }, required: ['id'] })

const documentKey: RouteQuery['rowKey'] = Object.freeze({ column: 'id', member: 'id' })

/** Compiles a query on a collection; null after faults. */
export function compileDocumentQuery (query: DocumentQuery, pointer: string, context: QueryContext): RouteQuery | null {
  const { faults, firestore } = context
  const before = faults.faults.length
  const { operation, collection } = query
  checkMembers(query, pointer, context)
  checkCollection(query, pointer, context)
  for (const [index, name] of (query.excludeFields ?? []).entries()) {
    const fault = faultOfExcluded(name)
    if (fault !== undefined) faults.add(pointerTo(pointer, 'excludeFields', index), fault)
  }
  const excluded = [...new Set([...context.excludeFields, ...query.excludeFields ?? []])]
  const withheld = [...context.withheld?.fields.get(collection ?? '') ?? []]
  const id = query.docId === undefined
    ? undefined
    : compileId(query.docId, pointerTo(pointer, 'docId'), { ...context, secretsRefusedIn: 'the id of a document' })
  const isRead = operation === 'get' || operation === 'query'
  const writesData = !isRead && operation !== 'delete'
  const input = writesData ? compileDocumentInput(query, id, new Set(excluded), pointerTo(pointer, 'data'), context) : undefined
  const shown = { select: selectOf(query.select, pointerTo(pointer, 'select'), context), excluded: [...excluded, ...withheld] }
  const order = compileDocumentOrder(query.order, pointerTo(pointer, 'order'), context)
  const cursors = compileDocumentCursors(query, order, pointer, context, shown)
  const parts: DocumentParts = {
    ...shown,
    order,
    cursors,
    collection: collection ?? '',
    id,
    kept: excluded,
    withheld,
    page: compilePage(query, pointer, context)
  }
  const isOnFirestore = (query.store ?? (firestore?.isDefault === true ? 'firestore' : 'sql')) === 'firestore'
  const compiled = isOnFirestore
    ? { store: 'firestore', ...compileOnFirestore(query, pointer, context, parts) } as const
    : { store: 'sql', shared: false, ...compileOnSql(query, pointer, context, parts) } as const
  if (collection === undefined || faults.faults.length > before || (writesData && input === undefined)) return null

  const references = uniqueReferences(
    [...id?.references ?? [], ...input?.references ?? [], ...compiled.references, ...parts.page.references]
  )
  // Requests without a tenant use the documents of the empty tenant.
  const used = Object.freeze([
    Object.freeze({ table: `${isOnFirestore ? 'firestore' : 'documents'}:${collection}`, scoped: !compiled.shared })
  ])
  const common = {
    key: query.alias ?? collection,
    table: collection,
    write: !isRead,
    tenantScoped: !compiled.shared,
    reads: isRead ? used : [],
    writes: isRead ? [] : used,
    missing: 'notFound',
    status: operation === 'create' || operation === 'add' ? 201 : 200,
    resultKind: cursors === undefined ? resultKinds[operation] : 'cursorPage',
    ofOneRow: operation === 'get',
    references: Object.freeze(references),
    inputPointers: new Map(),
    record: shown.excluded.includes('id') ? openSchema : documentSchema,
    parameters: cursors === undefined ? {} : cursorParameters,
    cursorMembers: cursors?.members ?? [],
    excluded: new Set(excluded),
    rowKey: documentKey,
    fields: null
  } as const
  const bound = compiled.store === 'sql'
    ? { store: compiled.store, bind: compiled.bind(input) }
    : { store: compiled.store, bind: compiled.bind(input) }
  // Members for the documentation only are computed on demand.
  const described = () => documentInput(query, new Set(excluded), context)
  return Object.freeze({
    ...common,
    ...bound,
    get input () {
      return described().input
    },
    get bulk () {
      return described().bulk
    }
  })
}

function checkCollection (
  { collection, operation, store }: DocumentQuery,
  pointer: string,
  { faults, firestore, softDelete }: QueryContext
): void {
  if (collection === undefined) faults.add(pointer, 'a document query requires a `collection`')
  else if (collection === '' || collection.length > 255 || collection.includes('{{') || collection.includes('\0')) {
    faults.add(pointerTo(pointer, 'collection'), 'expected a name of 1 to 255 characters, without templates')
  }
  if (operation === 'delete' && softDelete?.enabled === true) {
    faults.add(pointer, "documents have no `deleted` column, so the route's `softDelete` cannot apply")
  }
  if (store === 'firestore' && firestore === null) {
    faults.add(pointerTo(pointer, 'store'), "Firestore is not available: the platform's document requires the section `firebase`")
  }
}
