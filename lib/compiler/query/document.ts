/**
 * Document-style queries (SPEC `firebaseQueries`) on the SQL database: collections of JSON objects in
 * `tenantry.documents`, each tenant's apart; those of requests without a tenant have an empty tenant.
 */
import type { DocumentQuery } from '../../config/schema/query.js'
import type { Answer, BoundQuery, CompiledQuery, JsonSchema, Reference, Scope } from '../types.js'
import type { QueryContext } from './context.js'
import { pointerTo } from '../../config/faults.js'
import { compileValue } from '../template.js'
import { boundedColumn, boundedRowText, boundedText } from './answer-size.js'
import { compileDocumentData, type DocumentData } from './document-data.js'
import { compileFieldComparison, fieldOf } from './document-field.js'
import { compileWrite, documentEvents } from './entity-events.js'
import { markDocumentFiles } from './row-files.js'
import { type CompiledFilters, compileConditions, writeConditions } from './filter.js'
import { noScope } from '../no-scope.js'
import { columnOf } from './identifiers.js'
import { documentInput } from './input-schema.js'
import { direction } from './order.js'
import { compilePage, type Page, writePagination } from './page.js'
import { refuse, requestPath } from './request-path.js'
import { where } from './scope.js'
import { type Binder, type Input, noInput, type Placeholders } from './sql.js'
import { compileVariants, numberChooser, type Switch } from './statement.js'
import { uniqueReferences } from './unique-references.js'
import { isNumber } from '../../json/exact-number.js'
import { isStorableJson } from '../../json/storable.js'
import { stringifyJson } from '../../json/stringify.js'

const documents = '"tenantry"."documents"'
const maxIdLength = 512 // characters; PostgreSQL's index takes some 2,700 bytes

/** The schema of a document: its id, and whatever fields it has. */
const documentSchema: JsonSchema = Object.freeze({ type: 'object', properties: { id: { type: 'string' } }, required: ['id'], additionalProperties: true })

const documentKey: CompiledQuery['rowKey'] = Object.freeze({ column: 'id', member: 'id' })
const noPlaces: CompiledQuery['places'] = new Map()
const noParameters: CompiledQuery['parameters'] = Object.freeze({})
const nothing: CompiledQuery['writes'] = Object.freeze([])

type Operation = DocumentQuery['operation']
type Member = 'docId' | 'filters' | 'data' | 'order' | 'limit' | 'offset'

/** What each operation needs, and what it may have besides. */
const members = {
  get: { required: ['docId'], optional: [] },
  query: { required: [], optional: ['filters', 'order', 'limit', 'offset'] },
  create: { required: [], optional: ['docId', 'data'] },
  add: { required: [], optional: ['data'] },
  set: { required: ['docId'], optional: ['data'] },
  update: { required: ['docId'], optional: ['data'] },
  delete: { required: ['docId'], optional: [] }
} as const satisfies Record<Operation, { required: readonly Member[], optional: readonly Member[] }>

const answers = { get: 'record', query: 'page', create: 'record', add: 'record', set: 'record', update: 'record', delete: 'deletion' } as const satisfies Record<Operation, Answer>

/** The parts that statements of documents are written from. */
interface Parts {
  readonly origin: QueryContext['origin']
  readonly collection: Binder
  readonly id: Binder | undefined
  /** Left out unless the caller has full access; holds those that are always left out too. */
  readonly excluded: readonly string[]
  /** Left out for every caller: what the route writes from secrets. */
  readonly withheld: readonly string[]
  /** A document that is deleted takes its files with it. */
  readonly deletesFiles: boolean
  readonly filters: CompiledFilters
  readonly order: (alias: string) => string
  readonly page: Page
}

/** Compiles a query on a collection; null after faults were added to the context's list. */
export function compileDocumentQuery (query: DocumentQuery, pointer: string, context: QueryContext): CompiledQuery | null {
  const { faults } = context
  const before = faults.faults.length
  const { operation, collection } = query
  checkMembers(query, pointer, context)
  if (collection === undefined) faults.add(pointer, 'a document query needs a `collection`')
  else if (collection === '' || collection.length > 255 || collection.includes('{{') || collection.includes('\0')) faults.add(pointerTo(pointer, 'collection'), 'expected a name of 1 to 255 characters, without templates')
  if (operation === 'delete' && context.softDelete?.enabled === true) faults.add(pointer, "documents have no `deleted` field of the database: the route's `softDelete` cannot apply")

  const excluded = [...new Set([...context.excludeFields, ...query.excludeFields ?? []])]
  const withheld = [...context.withheld?.fields.get(collection ?? '') ?? []]
  const id = query.docId === undefined ? undefined : compileId(query.docId, pointerTo(pointer, 'docId'), { ...context, secretsRefusedIn: 'the id of a document' })
  const writes = operation !== 'get' && operation !== 'query' && operation !== 'delete'
  const creates = operation === 'create' || operation === 'add'
  const data = writes ? compileDocumentData(query.data, pointerTo(pointer, 'data'), context, { excluded: new Set(excluded), many: creates, lacking: operation === 'update' ? 'some' : 'every' }) : undefined
  const parts: Parts = {
    origin: context.origin,
    collection: () => collection,
    id: id?.bind,
    excluded: [...excluded, ...withheld],
    withheld,
    deletesFiles: context.deletesFiles === true,
    filters: compileConditions(query.filters ?? [], pointerTo(pointer, 'filters'), context, (filter, at) => compileFieldComparison(filter, at, context)),
    order: compileOrder(query.order, pointerTo(pointer, 'order'), context),
    page: compilePage(query, pointer, context)
  }
  if (collection === undefined || faults.faults.length > before || (writes && data === undefined)) return null

  const references = [...id?.references ?? [], ...data?.references ?? [], ...parts.filters.references, ...parts.page.references]
  // The documents of a request without a tenant are those of the empty one.
  const used = Object.freeze([Object.freeze({ table: `documents:${collection}`, scoped: true })])
  return Object.freeze({
    key: query.alias ?? collection,
    table: collection,
    write: operation !== 'get' && operation !== 'query',
    tenantScoped: true,
    reads: operation === 'get' || operation === 'query' ? used : nothing,
    writes: operation === 'get' || operation === 'query' ? nothing : used,
    missing: 'notFound',
    status: creates ? 201 : 200,
    answer: answers[operation],
    references: Object.freeze(uniqueReferences(references)),
    places: noPlaces,
    record: documentSchema,
    get input () { return documentInput(query, new Set(excluded), context).input },
    get bulk () { return documentInput(query, new Set(excluded), context).bulk },
    parameters: noParameters,
    cursorMembers: [],
    rowKey: documentKey,
    fields: null,
    bind: data === undefined ? bindRead(operation, parts) : bindWrite(operation, parts, data, id)
  })
}

function checkMembers (query: DocumentQuery, pointer: string, { faults }: QueryContext): void {
  const { required, optional }: { required: readonly Member[], optional: readonly Member[] } = members[query.operation]
  for (const member of ['docId', 'filters', 'data', 'order', 'limit', 'offset'] as const) {
    const isThere = Object.hasOwn(query, member)
    if (required.includes(member) && !isThere) faults.add(pointer, `\`${query.operation}\` needs a \`${member}\`${query.operation === 'get' ? '; `query` reads many documents' : ''}`)
    if (isThere && !required.includes(member) && !optional.includes(member)) faults.add(pointerTo(pointer, member), `\`${query.operation}\` has no use for it`)
  }
}

interface DocumentId {
  readonly references: readonly Reference[]
  /** null where the request has none. */
  readonly read: (scope: Scope) => string | null
  readonly bind: Binder
}

function compileId (configured: unknown, pointer: string, context: QueryContext): DocumentId {
  const before = context.faults.faults.length
  const value = compileValue(configured, pointer, context)
  const path = requestPath(value, '/docId')
  const read = (scope: Scope): string | null => {
    const given = value.evaluate(scope)
    if (given === undefined || given === null) return null
    if ((typeof given !== 'string' && !isNumber(given)) || given === '' || String(given).length > maxIdLength) {
      throw refuse({ path, message: `the id of a document is a text of 1 to ${maxIdLength} characters`, keyword: 'type' })
    }
    return String(given)
  }
  if (value.constant && context.faults.faults.length === before) {
    const id = value.evaluate(noScope)
    if (typeof id !== 'string' || id === '') context.faults.add(pointer, 'expected the id of a document, or a template')
  }
  return { references: value.references, read, bind: read }
}

function compileOrder (order: DocumentQuery['order'], pointer: string, context: QueryContext): (alias: string) => string {
  const keys = order === undefined ? [] : Array.isArray(order) ? order : [order]
  const fields = keys.flatMap((key, index) => {
    const field = fieldOf(key.column, Array.isArray(order) ? pointerTo(pointer, index, 'column') : pointerTo(pointer, 'column'), context)
    return field === undefined ? [] : [{ key, field }]
  })
  const last = keys.at(-1)?.ascending === false ? ' desc' : ''
  return (alias) => ` order by ${[...fields.map(({ key, field }) => `${field(alias)}${direction(key)}`), `${columnOf(alias, 'id')}${last}`].join(', ')}`
}

const hasFullAccess: Switch = (scope) => scope.fullAccess
const bindTenantOrNone: Binder = (scope) => scope.tenant?.id ?? ''

function tenantAndCollection ({ collection }: Parts, placeholders: Placeholders): [string, string] {
  return [placeholders.add(bindTenantOrNone, 'text'), placeholders.add(collection, 'text')]
}

/** The document with its id; the id is the one of the row, whatever the fields say. */
function recordOf ({ excluded, withheld }: Parts, alias: string, placeholders: Placeholders, on: ReadonlySet<Switch>): string {
  const [data, id] = [columnOf(alias, 'data'), `jsonb_build_object('id', ${columnOf(alias, 'id')})`]
  const left = on.has(hasFullAccess) ? withheld : excluded
  if (left.length === 0) return `(${data} || ${id})`
  const names = placeholders.add(excludedBinder(left), 'text[]')
  return `((${data} || ${id}) - ${names})`
}

const excludedBinders = new WeakMap<readonly string[], Binder>()

/** One binder for one list, so that it has one placeholder in a statement. */
function excludedBinder (excluded: readonly string[]): Binder {
  const known = excludedBinders.get(excluded)
  if (known !== undefined) return known
  const binder: Binder = () => excluded
  excludedBinders.set(excluded, binder)
  return binder
}

function conditionsOf (parts: Parts, alias: string, placeholders: Placeholders, on: ReadonlySet<Switch>): string {
  const [tenant, collection] = tenantAndCollection(parts, placeholders)
  const conditions = [`${columnOf(alias, 'tenant_id')} = ${tenant}`, `${columnOf(alias, 'collection')} = ${collection}`]
  if (parts.id !== undefined) conditions.push(`${columnOf(alias, 'id')} = ${placeholders.add(parts.id, 'text')}`)
  return where([...conditions, ...writeConditions(parts.filters, alias, placeholders, on)])
}

function bindRead (operation: Operation, parts: Parts): (scope: Scope) => BoundQuery {
  const isPage = operation === 'query'
  const switches = [...parts.filters.switches, ...parts.excluded.length > 0 ? [hasFullAccess] : [], ...isPage ? [parts.page.starts] : []]
  const writer = isPage
    ? (placeholders: Placeholders, on: ReadonlySet<Switch>, literal: number | undefined) => writePage(parts, literal, placeholders, on)
    : (placeholders: Placeholders, on: ReadonlySet<Switch>) => boundedRowText(`select ${recordOf(parts, 'd', placeholders, on)}::text from ${documents} d${conditionsOf(parts, 'd', placeholders, on)}`)
  const variants = operation === 'delete'
    ? compileDelete(parts)
    : compileVariants(parts.origin, switches, writer, isPage ? numberChooser(parts.page.literal) : undefined)
  const answer = answers[operation]
  return (scope) => {
    const { statement, values } = variants(scope, noInput)
    return { statement, values, answer }
  }
}

function compileDelete (parts: Parts): ReturnType<typeof compileWrite> {
  return compileWrite(parts.origin, parts.filters.switches, (placeholders, on, events) => {
    const remove = `delete from ${documents} d${conditionsOf(parts, 'd', placeholders, on)}`
    if (!events && !parts.deletesFiles) return `${remove} returning '{"success":true}'`
    const columns = events ? eventColumns(parts, placeholders) : 'd.tenant_id, d.id'
    const eventText = events ? documentEvents(parts.collection, 'deleted', placeholders) : ''
    const files = parts.deletesFiles ? markDocumentFiles(placeholders.add(parts.collection, 'text'), placeholders) : ''
    return `with w as (${remove} returning ${columns})${eventText}${files} select '{"success":true}' from w limit 1`
  })
}

/** What documentEvents reads of a written row. */
function eventColumns ({ withheld }: Parts, placeholders: Placeholders): string {
  const kept = withheld.length === 0 ? 'd.data' : `(d.data - ${placeholders.add(excludedBinder(withheld), 'text[]')})`
  return `d.tenant_id, d.id, (${kept} || jsonb_build_object('id', d.id)) as record`
}

function writePage (parts: Parts, literal: number | undefined, placeholders: Placeholders, on: ReadonlySet<Switch>): string {
  const { clause, pagination, total } = writePagination(parts.page, literal, placeholders, on)
  const rows = `select d.* from ${documents} d${conditionsOf(parts, 'd', placeholders, on)}${parts.order('d')}${clause}`
  const count = `select count(*) from ${documents} c${conditionsOf(parts, 'c', placeholders, on)}`
  return boundedText(`select concat('{"data":', coalesce(json_agg(${recordOf(parts, 'r', placeholders, on)})::text, '[]'), ${pagination}, ${total(count)}, '}}') from (${rows}) r`)
}

const bindJson: Binder = (_scope, { rows }) => rows

function bindWrite (operation: Operation, parts: Parts, data: DocumentData, id: DocumentId | undefined): (scope: Scope) => BoundQuery {
  const hasId: Switch = (scope) => id !== undefined && id.read(scope) !== null
  const access = parts.excluded.length > 0 ? [hasFullAccess] : []
  const one = compileWrite(parts.origin, operation === 'create' && id !== undefined ? [hasId, ...access] : access, (placeholders, on, events) =>
    operation === 'update' ? writeUpdate(parts, placeholders, on, events) : writeInsert(parts, operation === 'set' || on.has(hasId), operation === 'set', placeholders, on, events))
  const many = compileWrite(parts.origin, access, (placeholders, on, events) => writeInsertMany(parts, placeholders, on, events))

  return (scope) => {
    const own = id?.read(scope) ?? null
    const { documents, many: isMany } = data.read(scope, own)
    if (isMany && own !== null) throw refuse({ path: '/body', message: 'must be an object: one id is one document', keyword: 'type' })
    if (operation === 'set' && own === null) throw refuse({ path: '/docId', message: 'the id of the document is missing', keyword: 'required' })
    const rows = stringifyJson(isMany ? documents : documents[0])
    if (!isStorableJson(rows)) throw data.unstorable(documents, isMany)
    const input: Input = { row: [], rows, count: documents.length }
    const { statement, values } = isMany ? many(scope, input) : one(scope, input)
    return { statement, values, answer: isMany ? 'records' : 'record' }
  }
}

function writeInsert (parts: Parts, withId: boolean, replaces: boolean, placeholders: Placeholders, on: ReadonlySet<Switch>, events: boolean): string {
  const [tenant, collection] = tenantAndCollection(parts, placeholders)
  const id = withId && parts.id !== undefined ? placeholders.add(parts.id, 'text') : 'gen_random_uuid()::text'
  const conflict = replaces ? ' on conflict (tenant_id, collection, id) do update set data = excluded.data, updated_at = now()' : ''
  const insert = `insert into ${documents} as d (tenant_id, collection, id, data) values (${tenant}, ${collection}, ${id}, ${placeholders.add(bindJson, 'jsonb')})${conflict}`
  return answerRow(insert, parts, placeholders, on, events && (replaces ? setKind : 'created'))
}

function writeInsertMany (parts: Parts, placeholders: Placeholders, on: ReadonlySet<Switch>, events: boolean): string {
  const [tenant, collection] = tenantAndCollection(parts, placeholders)
  const insert = `insert into ${documents} as d (tenant_id, collection, id, data) select ${tenant}, ${collection}, gen_random_uuid()::text, e.value from jsonb_array_elements(${placeholders.add(bindJson, 'jsonb')}) e returning ${events ? eventColumns(parts, placeholders) : 'd.id'}, d.data`
  return `with w as (${insert})${events ? documentEvents(parts.collection, 'created', placeholders) : ''} ${boundedText(`select concat('{"data":', coalesce(json_agg(${recordOf(parts, 'w', placeholders, on)})::text, '[]'), '}') from w`)}`
}

/** Merges the fields at the top level; those that are not named stay. */
function writeUpdate (parts: Parts, placeholders: Placeholders, on: ReadonlySet<Switch>, events: boolean): string {
  const conditions = conditionsOf(parts, 'd', placeholders, on)
  return answerRow(`update ${documents} d set data = d.data || ${placeholders.add(bindJson, 'jsonb')}, updated_at = now()${conditions}`, parts, placeholders, on, events && 'updated')
}

/** A document that no transaction has locked or changed is new. */
const setKind = (row: string): string => `case when ${row}.made then 'entity.created' else 'entity.updated' end`

/** Makes a write answer the document that it wrote. `kind`: false sends no event. */
function answerRow (write: string, parts: Parts, placeholders: Placeholders, on: ReadonlySet<Switch>, kind: Parameters<typeof documentEvents>[1] | false): string {
  const record = recordOf(parts, 'd', placeholders, on)
  const eventText = kind === false ? '' : `, ${eventColumns(parts, placeholders)}${kind === setKind ? ', (d.xmax = 0) as made' : ''}`
  return `with w as (${write} returning ${record}::text as t${eventText})${kind === false ? '' : documentEvents(parts.collection, kind, placeholders)} select ${boundedColumn('w.t')} from w`
}
