/** A violated rule of a table, with the places of its columns in the request. */
import type { BoundQuery, CompiledQuery } from '../expressions/types.js'
import { ColumnsError } from '../database/failures.js'

/** The database knows only the columns. */
export function placed (error: unknown, { table, answer, places }: CompiledQuery, bound: BoundQuery | null): unknown {
  if (bound?.failure !== undefined) return bound.failure(error)
  // For an array of records, the database does not report which one it was.
  if (!(error instanceof ColumnsError) || error.table !== table || bound?.answer !== answer) return error
  return error.at(places)
}
