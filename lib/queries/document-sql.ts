/** Compiles document queries to SQL: collections of JSON objects in `tenantry.documents`, by tenant; the empty one without a tenant. */
import { oncePerObject } from '../cache/weak-memo.js'
import type { Reference, Scope } from '../expressions/types.js'
import { tenantOrPlatform } from '../identity/tenant-ref.js'
import { pointerTo } from '../schema/faults.js'
import type { DocumentQuery } from '../schema/query.js'
import type { BoundQuery } from './compiled-query.js'
import type { QueryContext } from './context.js'
import { bindCursorPages } from './cursor-pages.js'
import { compileFieldComparison } from './document-field.js'
import { type DocumentInput, type DocumentParts } from './document-parts.js'
import { compileWrite, documentEvents } from './entity-events.js'
import { compileConditions, type CompiledFilters, where, writeConditions } from './filter.js'
import { compilePages, writePagination } from './page.js'
import { writeCursorRows } from './read.js'
import { markDocumentFiles } from './row-files.js'
import {
  type Binder,
  boundedColumn, boundedRowText, boundedText, columnOf, compileVariants, type Draft, hasFullAccess, type Input, type Switch
} from './sql.js'

const documents = '"tenantry"."documents"'

type Operation = DocumentQuery['operation']

/** The common parts of document statements. */
interface Parts extends DocumentParts {
  readonly context: QueryContext
  readonly bindCollection: Binder
  readonly filters: CompiledFilters
  /** On if the caller has full access; empty if no field is excluded. */
  readonly access: readonly Switch[]
}

/** Compiles a query to SQL; its filters may add faults. */
export function compileOnSql (
  query: DocumentQuery,
  pointer: string,
  context: QueryContext,
  parts: DocumentParts
): { readonly references: readonly Reference[], readonly bind: (input: DocumentInput | undefined) => (scope: Scope) => BoundQuery } {
  const { collection } = parts
  const own: Parts = {
    ...parts,
    context,
    bindCollection: () => collection,
    access: parts.excluded.length > 0 ? [hasFullAccess] : [],
    filters: compileConditions(
      query.filters ?? [],
      pointerTo(pointer, 'filters'),
      context,
      (filter, at) => compileFieldComparison(filter, at, context)
    )
  }
  return {
    references: own.filters.references,
    bind: (input) => input === undefined ? bindRead(query.operation, own) : bindWrite(query, own, input)
  }
}

const bindTenantOrNone: Binder = (scope) => tenantOrPlatform(scope.tenant)

function tenantAndCollection ({ bindCollection }: Parts, draft: Draft): [string, string] {
  return [draft.add(bindTenantOrNone, 'text'), draft.add(bindCollection, 'text')]
}

/** The document with its id. The row's id overrides an `id` field. */
function recordOf ({ excluded, withheld, select }: Parts, alias: string, draft: Draft): string {
  const id = `jsonb_build_object('id', ${columnOf(alias, 'id')})`
  const data = select === null
    ? columnOf(alias, 'data')
    : selectedOf(columnOf(alias, 'data'), draft.add(listBinder(select), 'text[]'))
  const left = draft.has(hasFullAccess) ? withheld : excluded
  if (left.length === 0) return `(${data} || ${id})`
  const names = draft.add(listBinder(left), 'text[]')
  return `((${data} || ${id}) - ${names})`
}

/** The listed members of a document. */
function selectedOf (data: string, names: string): string {
  return `(select coalesce(jsonb_object_agg(m.key, m.value), '{}') from jsonb_each(${data}) m where m.key = any(${names}))`
}

/** One binder per list, so that a statement has one placeholder for it. */
const listBinder = oncePerObject((names: readonly string[]): Binder => () => names)

function conditionsOf (parts: Parts, alias: string, draft: Draft): string {
  const [tenant, collection] = tenantAndCollection(parts, draft)
  const conditions = [`${columnOf(alias, 'tenant_id')} = ${tenant}`, `${columnOf(alias, 'collection')} = ${collection}`]
  if (parts.id !== undefined) conditions.push(`${columnOf(alias, 'id')} = ${draft.add(parts.id.read, 'text')}`)
  return where([...conditions, ...writeConditions(parts.filters, alias, draft)])
}

function bindRead (operation: Operation, parts: Parts): (scope: Scope) => BoundQuery {
  if (operation === 'delete') return compileDelete(parts)
  const { access, context: { origin }, cursors, filters, order, page } = parts
  const switches = [...filters.switches, ...access]
  if (operation !== 'query') {
    return compileVariants(
      { origin, isRead: true },
      switches,
      (draft) => boundedRowText(`select ${recordOf(parts, 'd', draft)}::text from ${documents} d${conditionsOf(parts, 'd', draft)}`)
    )
  }
  if (cursors !== undefined) {
    return bindCursorPages({
      origin,
      switches,
      usual: order,
      read: cursors.read,
      page,
      write: (written, draft) =>
        writeCursorRows(written, draft, {
          rows: (alias, after) => `from ${documents} ${alias}${[conditionsOf(parts, alias, draft), ...after].join(' and ')}`,
          record: (alias) => `${recordOf(parts, alias, draft)} as record`,
          json: 'r.record'
        })
    })
  }
  return compilePages(origin, switches, page, (literal, draft) => writePage(parts, literal, draft))
}

function compileDelete (parts: Parts): ReturnType<typeof compileWrite> {
  return compileWrite(parts.context.origin, parts.filters.switches, (draft, events) => {
    const remove = `delete from ${documents} d${conditionsOf(parts, 'd', draft)}`
    if (!events && parts.context.deletesFiles !== true) return `${remove} returning '{"success":true}'`
    const columns = events ? eventColumns(parts, draft) : 'd.tenant_id, d.id'
    const eventText = events ? documentEvents(parts.bindCollection, 'deleted', draft) : ''
    const files = parts.context.deletesFiles === true ? markDocumentFiles(draft.add(parts.bindCollection, 'text'), draft) : ''
    return `with w as (${remove} returning ${columns})${eventText}${files} select '{"success":true}' from w limit 1`
  })
}

/** The columns of a written row that documentEvents reads. */
function eventColumns ({ withheld }: Parts, draft: Draft): string {
  const kept = withheld.length === 0 ? 'd.data' : `(d.data - ${draft.add(listBinder(withheld), 'text[]')})`
  return `d.tenant_id, d.id, (${kept} || jsonb_build_object('id', d.id)) as record`
}

function writePage (parts: Parts, literal: number | undefined, draft: Draft): string {
  const { clause, body } = writePagination(parts.page, literal, draft)
  const rows = `select d.* from ${documents} d${conditionsOf(parts, 'd', draft)}${parts.order.write('d')}${clause}`
  const count = `select count(*) from ${documents} c${conditionsOf(parts, 'c', draft)}`
  return boundedText(`select ${body(`coalesce(json_agg(${recordOf(parts, 'r', draft)})::text, '[]')`, count)} from (${rows}) r`)
}

const bindJson: Binder = (_scope, { rows }) => rows

function bindWrite ({ operation, merge = false }: DocumentQuery, parts: Parts, input: DocumentInput): (scope: Scope) => BoundQuery {
  const { id, access, context } = parts
  const hasId: Switch = (scope) => id !== undefined && id.read(scope) !== null
  const conflict: Conflict = operation !== 'set' ? 'refused' : merge ? 'merged' : 'replaced'
  const one = compileWrite(
    context.origin,
    operation === 'create' && id !== undefined ? [hasId, ...access] : access,
    (draft, events) =>
      operation === 'update'
        ? writeUpdate(parts, draft, events)
        : writeInsert(parts, operation === 'set' || draft.has(hasId), conflict, draft, events)
  )
  const many = compileWrite(context.origin, access, (draft, events) => writeInsertMany(parts, draft, events))

  return (scope) => {
    const { documents, many: isMany, text } = input.read(scope)
    const given: Input = { row: [], rows: text, count: documents.length }
    const { statement, values } = isMany ? many(scope, given) : one(scope, given)
    return { statement, values, resultKind: isMany ? 'records' : 'record' }
  }
}

/** The treatment of an existing document. */
type Conflict = 'refused' | 'replaced' | 'merged'

function onConflict (conflict: Conflict, { kept }: Parts, draft: Draft): string {
  if (conflict === 'refused') return ''
  const stays = conflict === 'merged' ? 'd.data || ' : keptOnReplace(kept, draft)
  return ` on conflict (tenant_id, collection, id) do update set data = ${stays}excluded.data, updated_at = now()`
}

/** Callers without full access do not see the excluded fields, so they cannot send them again. */
function keptOnReplace (kept: readonly string[], draft: Draft): string {
  if (kept.length === 0 || draft.has(hasFullAccess)) return ''
  return `${selectedOf('d.data', draft.add(listBinder(kept), 'text[]'))} || `
}

function writeInsert (parts: Parts, withId: boolean, conflict: Conflict, draft: Draft, events: boolean): string {
  const [tenant, collection] = tenantAndCollection(parts, draft)
  const id = withId && parts.id !== undefined ? draft.add(parts.id.read, 'text') : 'gen_random_uuid()::text'
  const insert = `insert into ${documents} as d (tenant_id, collection, id, data) values (${tenant}, ${collection}, ${id}, ${
    draft.add(bindJson, 'jsonb')
  })${onConflict(conflict, parts, draft)}`
  return selectWritten(insert, parts, draft, events && (conflict === 'refused' ? 'created' : setKind))
}

function writeInsertMany (parts: Parts, draft: Draft, events: boolean): string {
  const [tenant, collection] = tenantAndCollection(parts, draft)
  const insert =
    `insert into ${documents} as d (tenant_id, collection, id, data) select ${tenant}, ${collection}, gen_random_uuid()::text, e.value from jsonb_array_elements(${
      draft.add(bindJson, 'jsonb')
    }) e returning ${events ? eventColumns(parts, draft) : 'd.id'}, d.data`
  return `with w as (${insert})${events ? documentEvents(parts.bindCollection, 'created', draft) : ''} ${
    boundedText(`select concat('{"data":', coalesce(json_agg(${recordOf(parts, 'w', draft)})::text, '[]'), '}') from w`)
  }`
}

/** Merges the fields at the top level; unnamed fields keep their values. */
function writeUpdate (parts: Parts, draft: Draft, events: boolean): string {
  const conditions = conditionsOf(parts, 'd', draft)
  return selectWritten(
    `update ${documents} d set data = d.data || ${draft.add(bindJson, 'jsonb')}, updated_at = now()${conditions}`,
    parts,
    draft,
    events && 'updated'
  )
}

/** A document that no transaction has locked or changed is new. */
const setKind = (row: string): string => `case when ${row}.made then 'entity.created' else 'entity.updated' end`

/** Makes a write return its document. `kind`: false sends no event. */
function selectWritten (write: string, parts: Parts, draft: Draft, kind: Parameters<typeof documentEvents>[1] | false): string {
  const record = recordOf(parts, 'd', draft)
  const eventText = kind === false ? '' : `, ${eventColumns(parts, draft)}${kind === setKind ? ', (d.xmax = 0) as made' : ''}`
  return `with w as (${write} returning ${record}::text as t${eventText})${
    kind === false ? '' : documentEvents(parts.bindCollection, kind, draft)
  } select ${boundedColumn('w.t')} from w`
}
