import type { DocumentQuery } from '../../config/schema/query.js'
import type { CompiledQuery } from '../types.js'
import type { QueryContext } from './context.js'

export function compileDocumentQuery (_query: DocumentQuery, pointer: string, context: QueryContext): CompiledQuery | null {
  context.faults.add(pointer, 'document queries are not in this version yet')
  return null
}
