/** Errors of the database that name columns. */
import { ColumnsError, withReferences } from '../database/failures.js'
import type { BoundQuery, CompiledQuery } from '../queries/compiled-query.js'

/**
 * Gives the error of a query the places of the values in the request: the database knows only the columns.
 *
 * @param writer the part of the document with the query, in words. Default: the route
 */
export function atInputPointers (raised: unknown, compiled: CompiledQuery, bound: BoundQuery | null, writer?: string): unknown {
  if (bound === null) return raised
  if (bound.failure !== undefined) return bound.failure(raised)
  const { table, resultKind, inputPointers, checkedColumns = [] } = compiled
  const error = withReferences(raised, table, checkedColumns.filter((columns) => columns.some((column) => inputPointers.has(column))))
  // For an array of records, the database does not report the record.
  if (!(error instanceof ColumnsError) || error.table !== table || (bound.resultKind ?? resultKind) !== resultKind) return error
  return error.at(inputPointers, writer)
}
