/** Adds the fields of the request to the error of a violated constraint. */
import type { BoundQuery, CompiledQuery } from '../expressions/types.js'
import { ColumnsError } from '../database/failures.js'

/** The database knows only the columns. */
export function placed (error: unknown, { table, answer, places }: CompiledQuery, bound: BoundQuery | null): unknown {
  if (bound?.failure !== undefined) return bound.failure(error)
  // For an array of records, the database does not report the record.
  if (!(error instanceof ColumnsError) || error.table !== table || bound?.answer !== answer) return error
  return error.at(places)
}
