/** The values of a document write, from the request. */
import type { CompiledValue, Reference, Scope } from '../expressions/types.js'
import type { QueryContext } from './context.js'
import type { TenantryError } from '../errors.js'
import { pointerTo } from '../schema/faults.js'
import { compileValue } from '../expressions/template.js'
import { noScope } from '../expressions/no-scope.js'
import { isStorableJson, unstorableText } from '../json/storable.js'
import { stringifyJson } from '../json/stringify.js'
import { type Detail, refuse, requestPath } from './request-path.js'
import { isRecord } from '../json/plain-value.js'
import { type InputOptions, isExcludedInput, isOmitted, maxRows } from './write-input.js'

type Fields = Readonly<Record<string, unknown>>

export interface DocumentData {
  /** The value's pointer in the request; empty if it has several sources. */
  readonly path: string
  /** The documents without their `id`, and whether the input was an array. Throws `validationFailed`. */
  readonly read: (scope: Scope, id: string | null) => { readonly documents: readonly Fields[], readonly many: boolean }
  readonly references: readonly Reference[]
  /** The error for characters that PostgreSQL cannot store; it names the fields. */
  readonly unstorable: (documents: readonly Fields[], many: boolean) => TenantryError
}

/** Compiles the `data` of a write; undefined after a fault. */
export function compileDocumentData (
  data: unknown,
  pointer: string,
  context: QueryContext,
  options: InputOptions
): DocumentData | undefined {
  const before = context.faults.faults.length
  const value = compileValue(data === undefined ? '{{body}}' : data, pointer, context)
  if (context.faults.faults.length > before) return undefined
  if (value.constant && !isRecord(value.evaluate(noScope)) && !(options.many && Array.isArray(value.evaluate(noScope)))) {
    context.faults.add(pointer, 'expected an object with the fields, or a template')
    return undefined
  }
  const members = isRecord(data)
    ? Object.entries(data).map(([name, member]) => ({ name, value: compileValue(member, pointerTo(pointer, name), context) }))
    : null
  const nested = members?.filter(({ value }) => value.within !== undefined) ?? []
  const dropped = droppedFields(members, value, options.excluded)
  const path = requestPath(value, '')

  const readOne = (given: unknown, at: string, id: string | null, fullAccess: boolean): Fields => {
    if (!isRecord(given)) {
      throw refuse({ path: at, message: options.many ? 'must be an object, or an array of objects' : 'must be an object', keyword: 'type' })
    }
    const hasId = Object.hasOwn(given, 'id')
    if (hasId && given.id !== id) {
      throw refuse({
        path: pointerTo(at, 'id'),
        message: 'the id of a document is not one of its fields: it is set by the path, or by the server',
        keyword: 'readOnly'
      })
    }
    if (!hasId && (fullAccess || dropped.size === 0)) return given
    const isKept = ([name]: [string, unknown]): boolean => name !== 'id' && (fullAccess || !dropped.has(name))
    return Object.fromEntries(Object.entries(given).filter(isKept))
  }

  const evaluate = (scope: Scope): unknown => {
    const given = value.evaluate(scope)
    const omitted = nested.filter((member) => isOmitted(member.value, scope, options.omit))
    return omitted.length === 0 || !isRecord(given)
      ? given
      : Object.fromEntries(Object.entries(given).filter(([name]) => !omitted.some((member) => member.name === name)))
  }

  return {
    path,
    references: value.references,
    unstorable: (documents, many) =>
      refuse(
        ...documents.flatMap((document, index) => unstorableFields(document, many ? pointerTo(path, index) : path)).slice(0, maxUnstorable)
      ),
    read: (scope, id) => {
      const given = evaluate(scope)
      if (!options.many || !Array.isArray(given)) return { documents: [readOne(given, path, id, scope.fullAccess)], many: false }
      if (given.length > maxRows) throw refuse({ path, message: `must contain at most ${maxRows} records`, keyword: 'maxItems' })
      return { documents: given.map((each, index) => readOne(each, pointerTo(path, index), null, scope.fullAccess)), many: true }
    }
  }
}

const maxUnstorable = 20 // fields in a response

function unstorableFields (document: Fields, at: string): Detail[] {
  return Object.entries(document).filter(([name, value]) => !isStorableJson(stringifyJson({ [name]: value })))
    .map(([name]) => ({ path: pointerTo(at, name), message: unstorableText, keyword: 'pattern' }))
}

/** Excluded fields in the body, direct or within the configured members. */
function droppedFields (
  members: readonly { name: string, value: CompiledValue }[] | null,
  value: CompiledValue,
  excluded: ReadonlySet<string>
): ReadonlySet<string> {
  if (members === null) return value.references.some(({ source }) => source === 'body') ? excluded : new Set()
  return new Set(members.filter((member) => isExcludedInput(member.name, member.value, excluded)).map(({ name }) => name))
}
