/** The parts that document queries share on both stores: members, ids, fields, and values from the request. */
import { noScope } from '../expressions/no-scope.js'
import type { ResultKind } from '../expressions/result.js'
import { compileValue } from '../expressions/template.js'
import type { CompiledValue, Reference, Scope } from '../expressions/types.js'
import { isNumber } from '../json/exact-number.js'
import { isRecord } from '../json/plain-value.js'
import { isStorable, isStorableJson, unstorableText } from '../json/storable.js'
import { stringifyJson } from '../json/stringify.js'
import { mayHoldTyped, type TypedFault, withNormalTypes } from '../json/typed-values.js'
import { pointerTo } from '../schema/faults.js'
import type { DocumentQuery } from '../schema/query.js'
import { type ErrorDetail, invalidInput } from '../validation/detail.js'
import type { QueryContext } from './context.js'
import type { compileDocumentCursors } from './document-cursor.js'
import { excluding, isExcludedInput, isOfCaller } from './excluded-input.js'
import type { RowOrder } from './order.js'
import type { Page } from './page.js'
import { refuse, requestPath } from './request-value.js'
import { isOmitted, maxRows } from './write-input.js'

type Operation = DocumentQuery['operation']

export const resultKinds = {
  get: 'record',
  query: 'page',
  create: 'record',
  add: 'record',
  set: 'record',
  update: 'record',
  delete: 'deletion'
} as const satisfies Record<Operation, ResultKind>

const queryMembers = ['docId', 'filters', 'data', 'merge', 'select', 'order', 'pagination', 'limit', 'offset'] as const
type Member = typeof queryMembers[number]

/** The required and the optional members of each operation. */
const members = {
  get: { required: ['docId'], optional: ['select'] },
  query: { required: [], optional: ['filters', 'select', 'order', 'pagination', 'limit', 'offset'] },
  create: { required: [], optional: ['docId', 'data'] },
  add: { required: [], optional: ['data'] },
  set: { required: ['docId'], optional: ['data', 'merge'] },
  update: { required: ['docId'], optional: ['data'] },
  delete: { required: ['docId'], optional: [] }
} as const satisfies Record<Operation, { required: readonly Member[], optional: readonly Member[] }>

/** The parts of a query on a collection. */
export interface DocumentParts {
  readonly collection: string
  readonly id: ReturnType<typeof compileId> | undefined
  /** The fields in the response; null for all. */
  readonly select: readonly string[] | null
  /** Omitted unless the caller has full access; includes the fields that are always omitted. */
  readonly excluded: readonly string[]
  /** Kept by `set` of a caller without full access: the fields of `excludeFields`. */
  readonly kept: readonly string[]
  /** Omitted for every caller: the fields that the route writes from secrets. */
  readonly withheld: readonly string[]
  readonly order: RowOrder
  readonly page: Page
  /** Set for a list with cursor pages. */
  readonly cursors: ReturnType<typeof compileDocumentCursors>
}

export function checkMembers (query: DocumentQuery, pointer: string, { faults }: QueryContext): void {
  const { required, optional }: { required: readonly Member[], optional: readonly Member[] } = members[query.operation]
  for (const member of queryMembers) {
    const isThere = Object.hasOwn(query, member)
    if (required.includes(member) && !isThere) {
      faults.add(
        pointer,
        `\`${query.operation}\` requires a \`${member}\`${query.operation === 'get' ? '; `query` reads many documents' : ''}`
      )
    }
    if (isThere && !required.includes(member) && !optional.includes(member)) {
      faults.add(pointerTo(pointer, member), `is not used by \`${query.operation}\``)
    }
  }
  if (query.pagination === 'cursor' && query.offset !== undefined) {
    faults.add(pointerTo(pointer, 'offset'), 'pages with a cursor have no offset')
  }
}

const fieldName = /^[A-Za-z_][\w-]{0,62}$/

/** The fields of a `select`; null for all. */
export function selectOf (select: string | undefined, pointer: string, { faults }: QueryContext): readonly string[] | null {
  if (select === undefined || select.trim() === '*') return null
  const names = select.split(',').map((name) => name.trim())
  for (const name of names) {
    if (!fieldName.test(name)) {
      faults.add(pointer, `"${name}" is not a valid field: expected names of top-level fields separated by \`,\`, or \`*\``)
    }
  }
  return names.filter((name) => name !== 'id')
}

/** The fault of a name in `excludeFields`: a path would exclude nothing. */
export function faultOfExcluded (name: string): string | undefined {
  return /^$|[.[\]/]/.test(name) ? `"${name}" is not a valid field: expected the name of a top-level field of the documents` : undefined
}

type Fields = Readonly<Record<string, unknown>>

/** The documents in one request. */
interface GivenDocuments {
  readonly documents: readonly Fields[]
  /** The input was an array. */
  readonly many: boolean
  /** The document, or the array of documents, as JSON. */
  readonly text: string
  /** The id of a single document; null if the request has none. */
  readonly id: string | null
}

/** The documents of a write. */
export interface DocumentInput {
  readonly references: readonly Reference[]
  /** Throws `validationFailed`. */
  readonly read: (scope: Scope) => GivenDocuments
}

/** Compiles the `data` of a write; undefined after a fault. */
export function compileDocumentInput (
  { operation, data }: DocumentQuery,
  id: DocumentParts['id'],
  excluded: ReadonlySet<string>,
  pointer: string,
  context: QueryContext
): DocumentInput | undefined {
  const before = context.faults.faults.length
  const given = compileValue(data === undefined ? '{{body}}' : data, pointer, context)
  // Fields of documents that are one template are left out below.
  const withoutExcluded = excluding(excluded)
  const value = given.within === undefined ? given : withoutExcluded(given)
  if (context.faults.faults.length > before) return undefined
  const acceptsMany = operation === 'create' || operation === 'add'
  if (value.constant && !isRecord(value.evaluate(noScope)) && !(acceptsMany && Array.isArray(value.evaluate(noScope)))) {
    context.faults.add(pointer, 'expected an object with the fields, or a template')
    return undefined
  }
  const members = isRecord(data)
    ? Object.entries(data).map(([name, member]) => ({
      name,
      value: withoutExcluded(compileValue(member, pointerTo(pointer, name), context))
    }))
    : null
  const nested = members?.filter(({ value }) => value.within !== undefined) ?? []
  const dropped = droppedFields(members, value, excluded)
  const path = requestPath(value, '')

  const readOne = (given: unknown, at: string, id: string | null, fullAccess: boolean): Fields => {
    if (!isRecord(given)) throw invalidInput(at, acceptsMany ? 'must be an object, or an array of objects' : 'must be an object', 'type')
    const hasId = Object.hasOwn(given, 'id')
    if (hasId && given.id !== id) {
      const message = 'the id of a document is not one of its fields: it is set by the path, or by the server'
      throw invalidInput(pointerTo(at, 'id'), message, 'readOnly')
    }
    if (!hasId && (fullAccess || dropped.size === 0)) return given
    const isKept = ([name]: [string, unknown]): boolean => name !== 'id' && (fullAccess || !dropped.has(name))
    return Object.fromEntries(Object.entries(given).filter(isKept))
  }

  const evaluate = (scope: Scope): unknown => {
    const given = value.evaluate(scope)
    const omitted = nested.filter((member) => isOmitted(member.value, scope, operation === 'update' ? 'some' : 'every'))
    return omitted.length === 0 || !isRecord(given)
      ? given
      : Object.fromEntries(Object.entries(given).filter(([name]) => !omitted.some((member) => member.name === name)))
  }

  return {
    references: value.references,
    read (scope) {
      const own = id?.read(scope) ?? null
      const given = evaluate(scope)
      const many = acceptsMany && Array.isArray(given)
      if (many && given.length > maxRows) throw invalidInput(path, `must contain at most ${maxRows} records`, 'maxItems')
      const at = (index: number): string => many ? pointerTo(path, index) : path
      const documents = many
        ? given.map((each, index) => readOne(each, at(index), null, scope.fullAccess))
        : [readOne(given, path, own, scope.fullAccess)]
      if (many && own !== null) throw invalidInput('/body', 'must be an object, because one id identifies one document', 'type')
      if (operation === 'set' && own === null) throw invalidInput('/docId', 'the id of the document is missing', 'required')
      const text = stringifyJson(many ? documents : documents[0])
      if (!isStorableJson(text)) throw refuse(documents.flatMap((document, index) => unstorableFields(document, at(index))))
      if (!mayHoldTyped(text)) return { documents, many, text, id: own }
      const normal = documents.map((document, index) => normalOf(document, at(index)))
      return { documents: normal, many, text: stringifyJson(many ? normal : normal[0]), id: own }
    }
  }
}

function normalOf (document: Fields, at: string): Fields {
  const faults: TypedFault[] = []
  // The document itself is always an object, even if its only member has the name of a typed value.
  const normal = Object.fromEntries(Object.entries(document).map(([name, value]) => [name, withNormalTypes(value, faults, [name])]))
  if (faults.length > 0) {
    throw refuse(faults.map(({ path, expected }) => ({ path: pointerTo(at, ...path), message: `must be ${expected}`, keyword: 'type' })))
  }
  return normal
}

const maxIdLength = 512 // characters; PostgreSQL's index accepts about 2,700 bytes

/** Compiles a `docId`. `path`: its pointer in the request; `read` returns null if the request has none. */
export function compileId (configured: unknown, pointer: string, context: QueryContext) {
  const before = context.faults.faults.length
  const value = compileValue(configured, pointer, context)
  const path = requestPath(value, '/docId')
  if (value.constant && context.faults.faults.length === before) {
    const id = value.evaluate(noScope)
    if (typeof id !== 'string' || id === '') context.faults.add(pointer, 'expected the id of a document, or a template')
  }
  return {
    references: value.references,
    path,
    read: (scope: Scope): string | null => {
      const given = value.evaluate(scope)
      if (given === undefined || given === null) return null
      if ((typeof given !== 'string' && !isNumber(given)) || given === '' || String(given).length > maxIdLength) {
        throw invalidInput(path, `the id of a document must be a string of 1 to ${maxIdLength} characters`, 'type')
      }
      const id = String(given)
      // PostgreSQL would store two different ids with half a surrogate pair as one.
      if (!isStorable(id)) throw invalidInput(path, unstorableText, 'pattern')
      return id
    }
  }
}

function unstorableFields (document: Fields, at: string): ErrorDetail[] {
  return Object.entries(document).filter(([name, value]) => !isStorableJson(stringifyJson({ [name]: value })))
    .map(([name]) => ({ path: pointerTo(at, name), message: unstorableText, keyword: 'pattern' }))
}

/** Excluded fields in the body, direct or within the configured members. */
function droppedFields (
  members: readonly { name: string, value: CompiledValue }[] | null,
  value: CompiledValue,
  excluded: ReadonlySet<string>
): ReadonlySet<string> {
  if (members === null) return value.references.some(isOfCaller) ? excluded : new Set()
  return new Set(members.filter((member) => isExcludedInput(member.name, member.value, excluded)).map(({ name }) => name))
}
