/** Reads of documents: the client's queries, and the JSON texts of their results. */
import type * as Sdk from '@google-cloud/firestore'
import { failure } from '../errors.js'
import { isRecord } from '../json/plain-value.js'
import { stringifyJson } from '../json/stringify.js'
import type { CollectionPlace } from './paths.js'
import type { DocumentFilter, FieldNames, OrderKey, PageOperation, Shape } from './types.js'
import type { Fields, Values } from './values.js'

type Parts = Pick<typeof Sdk, 'FieldPath' | 'Filter'>

/** A document with its id. */
interface FoundDocument {
  readonly id: string
  readonly fields: Fields
}

export type Reader = ReturnType<typeof createReader>

export function createReader ({ FieldPath, Filter }: Parts, client: Sdk.Firestore, values: Values) {
  const pathOf = (field: FieldNames): Sdk.FieldPath => field === null ? FieldPath.documentId() : new FieldPath(...field)

  function filterOf (filter: DocumentFilter, operation: PageOperation): Sdk.Filter {
    if (filter.kind === 'field') {
      const { field, operator, value } = filter
      return Filter.where(pathOf(field), operator, field === null ? value : values.encodeValue(value, operation.place))
    }
    const filters = filter.filters.map((each) => filterOf(each, operation))
    return filter.kind === 'or' ? Filter.or(...filters) : Filter.and(...filters)
  }

  function query (operation: PageOperation): Sdk.Query {
    let query: Sdk.Query = client.collection(operation.place.path)
    for (const filter of operation.filters ?? []) query = query.where(filterOf(filter, operation))
    for (const { field, descending } of operation.order) query = query.orderBy(pathOf(field), descending ? 'desc' : 'asc')
    return query
  }

  function continued (query: Sdk.Query, order: readonly OrderKey[], place: CollectionPlace, after: readonly unknown[] | null): Sdk.Query {
    if (after === null) return query
    return query.startAfter(...after.map((value, index) => order[index]?.field === null ? value : values.encodeValue(value, place)))
  }

  /** The fields to read; null for all. */
  function fieldsOf ({ shape: { only } }: PageOperation): Sdk.FieldPath[] | null {
    return only === null ? null : Array.from(only, (name) => new FieldPath(name))
  }

  return {
    query,

    /** `idsOnly`: documents without their fields. */
    page (operation: PageOperation, idsOnly = false): Sdk.Query {
      const { cursor, order, place } = operation
      // One further document shows whether another page follows.
      const page = continued(query(operation), order, place, cursor?.after ?? null).limit(operation.limit + (cursor === undefined ? 0 : 1))
      const from = operation.offset === 0 ? page : page.offset(operation.offset)
      const fields = idsOnly ? [] : fieldsOf(operation)
      return fields === null ? from : from.select(...fields)
    },

    fieldsOf
  }
}

/** The result of a page. `read` adds its documents, and `count` gives the total if the page does not show it. */
export async function pageText (
  operation: PageOperation,
  maxBytes: number,
  read: (found: PageTexts) => Promise<void>,
  count: () => Promise<number>
): Promise<string> {
  const { filters, limit, offset, cursor } = operation
  const found = new PageTexts(operation, maxBytes)
  if (filters !== null && limit > 0) await read(found)
  const { list } = found.texts
  const data = `{"data":[${list.join(',')}],"pagination":{"limit":${limit}`
  if (cursor !== undefined) return `${data},"next":\n${found.next}`
  let total = filters === null ? 0 : offset + list.length
  if (filters !== null && (list.length >= limit || (list.length === 0 && offset > 0))) total = await count()
  return `${data},"offset":${offset},"total":${total}}}`
}

/** The JSON text of a document. Its id comes from its path, not from its fields. */
export function textOf ({ id, fields }: FoundDocument, { only, without }: Shape): string {
  const record: Record<string, unknown> = {}
  for (const name of Object.keys(fields)) {
    if (without.has(name) || (only !== null && !only.has(name))) continue
    if (name === '__proto__') Object.defineProperty(record, name, { value: fields[name], enumerable: true })
    else record[name] = fields[name]
  }
  if (without.has('id')) delete record['id']
  else record['id'] = id
  return stringifyJson(record)
}

/** Collects texts up to a number of bytes; beyond it, the result would be too large. */
export class Texts {
  readonly list: string[] = []
  readonly #most: number
  #bytes = 0

  constructor (most: number) {
    this.#most = most
  }

  add (text: string): void {
    this.#bytes += Buffer.byteLength(text)
    if (this.#bytes > this.#most) throw failure('answerTooLarge')
    this.list.push(text)
  }
}

/** Collects the documents of one page. */
export class PageTexts {
  readonly texts: Texts
  /** The values of the order's keys in the last document, if more documents follow; else empty. */
  next = ''
  readonly #operation: PageOperation
  #last: FoundDocument | null = null

  constructor (operation: PageOperation, most: number) {
    this.#operation = operation
    this.texts = new Texts(most)
  }

  add (found: FoundDocument): void {
    const { cursor, limit, order, shape } = this.#operation
    if (cursor !== undefined && this.#last !== null && this.texts.list.length === limit) {
      const { id, fields } = this.#last
      this.next = stringifyJson(order.map(({ field }) => field === null ? id : stringifyJson(valueAt(fields, field))))
      return
    }
    this.texts.add(textOf(found, shape))
    this.#last = found
  }
}

function valueAt (fields: Fields, names: readonly string[]): unknown {
  return names.reduce<unknown>((value, name) => isRecord(value) && Object.hasOwn(value, name) ? value[name] : null, fields)
}
