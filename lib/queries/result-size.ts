/**
 * Limits the size of a statement's text. PostgreSQL enforces the limit before it sends anything. A JavaScript string cannot hold more than
 * 512 MB, and far smaller texts take memory and time from other requests. A larger text fails the statement, which also rolls back a write.
 */
import { maxResultBytes } from '../expressions/result.js'

/** Wraps a `select` of one text whose subquery cannot be flattened, because it has an aggregate or a limit. */
export function boundedText (select: string): string {
  return `select ${boundedColumn('a.t')} from (${select}) a(t)`
}

/** Wraps any other `select`. Without `offset 0`, which is free, PostgreSQL would flatten the subquery and compute the text twice. */
export function boundedRowText (select: string): string {
  return boundedText(`${select} offset 0`)
}

/** A text column, if it is within the limit. */
export function boundedColumn (column: string): string {
  const size = `octet_length(${column})`
  return `case when ${size} > ${maxResultBytes} then ${tooLarge(size)} else ${column} end`
}

/**
 * An expression that fails during evaluation with SQLSTATE 2201G; the engines report it as `answerTooLarge`. `size` is a number
 * from 0 that depends on the row, so that PostgreSQL does not evaluate the expression in advance.
 */
export function tooLarge (size: string): string {
  return `width_bucket(0::float8, 0, 1, -${size})::text`
}
