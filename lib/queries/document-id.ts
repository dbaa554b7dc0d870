/** Reads the id of one document from the request. */
import type { Reference, Scope } from '../expressions/types.js'
import type { QueryContext } from './context.js'
import { isNumber } from '../json/exact-number.js'
import { noScope } from '../expressions/no-scope.js'
import { compileValue } from '../expressions/template.js'
import { refuse, requestPath } from './request-path.js'

const maxIdLength = 512 // characters; PostgreSQL's index accepts about 2,700 bytes

export interface DocumentId {
  readonly references: readonly Reference[]
  /** The id's pointer in the request. */
  readonly path: string
  /** null if the request has none. */
  readonly read: (scope: Scope) => string | null
}

export function compileId (configured: unknown, pointer: string, context: QueryContext): DocumentId {
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
    read (scope) {
      const given = value.evaluate(scope)
      if (given === undefined || given === null) return null
      if ((typeof given !== 'string' && !isNumber(given)) || given === '' || String(given).length > maxIdLength) {
        throw refuse({ path, message: `the id of a document must be a string of 1 to ${maxIdLength} characters`, keyword: 'type' })
      }
      return String(given)
    }
  }
}
