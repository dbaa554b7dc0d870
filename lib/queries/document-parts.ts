/** The parts that document queries share on both stores: members, ids, fields, and values from the request. */
import type { DocumentQuery } from '../schema/query.js'
import type { ResultKind, Scope } from '../expressions/types.js'
import type { QueryContext } from './context.js'
import type { DocumentCursors } from './document-cursor.js'
import type { DocumentData } from './document-data.js'
import type { DocumentId } from './document-id.js'
import type { Page } from './page.js'
import { pointerTo } from '../schema/faults.js'
import { isStorableJson } from '../json/storable.js'
import { stringifyJson } from '../json/stringify.js'
import { mayHoldTyped, type TypedFault, withNormalTypes } from '../json/typed-values.js'
import { refuse } from './request-path.js'

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
  readonly id: DocumentId | undefined
  /** The fields in the response; null for all. */
  readonly select: readonly string[] | null
  /** Omitted unless the caller has full access; includes the fields that are always omitted. */
  readonly excluded: readonly string[]
  /** Omitted for every caller: the fields that the route writes from secrets. */
  readonly withheld: readonly string[]
  readonly page: Page
  /** Set for a list with cursor pages. */
  readonly cursors: DocumentCursors | undefined
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

/** The documents in one request. */
export interface GivenDocuments {
  readonly documents: ReadonlyArray<Readonly<Record<string, unknown>>>
  /** The input was an array. */
  readonly many: boolean
  /** The document, or the array of documents, as JSON. */
  readonly text: string
  /** The id of a single document; null if the request has none. */
  readonly id: string | null
}

export interface DocumentInput {
  /** Throws `validationFailed`. */
  readonly read: (scope: Scope) => GivenDocuments
}

export function compileInput (operation: Operation, data: DocumentData, id: DocumentId | undefined): DocumentInput {
  return {
    read (scope) {
      const own = id?.read(scope) ?? null
      const { documents, many } = data.read(scope, own)
      if (many && own !== null) {
        throw refuse({ path: '/body', message: 'must be an object, because one id identifies one document', keyword: 'type' })
      }
      if (operation === 'set' && own === null) {
        throw refuse({ path: '/docId', message: 'the id of the document is missing', keyword: 'required' })
      }
      const text = stringifyJson(many ? documents : documents[0])
      if (!isStorableJson(text)) throw data.unstorable(documents, many)
      if (!mayHoldTyped(text)) return { documents, many, text, id: own }
      const normal = documents.map((document, index) => normalOf(document, many ? pointerTo(data.path, index) : data.path))
      return { documents: normal, many, text: stringifyJson(many ? normal : normal[0]), id: own }
    }
  }
}

function normalOf (document: Readonly<Record<string, unknown>>, at: string): Readonly<Record<string, unknown>> {
  const faults: TypedFault[] = []
  // The document itself is always an object, whatever its only member is called.
  const normal = Object.fromEntries(Object.entries(document).map(([name, value]) => [name, withNormalTypes(value, faults, [name])]))
  if (faults.length > 0) {
    throw refuse(
      ...faults.slice(0, maxFaults).map(({ path, expected }) => ({
        path: pointerTo(at, ...path),
        message: `must be ${expected}`,
        keyword: 'type'
      }))
    )
  }
  return normal
}

const maxFaults = 20 // in a response
