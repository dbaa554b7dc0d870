/**
 * The bound of the text of one statement. PostgreSQL applies it before it sends anything: a JavaScript string cannot hold a text
 * above 512 MB, and far smaller ones take memory and time that all requests share. A larger text fails the statement, which
 * undoes a write.
 */
import { maxAnswerBytes } from '../expressions/answer.js'

/** Wraps a `select` of one text, which an aggregate or a limit keeps apart from what is around it. */
export function boundedText (select: string): string {
  return `select ${boundedColumn('a.t')} from (${select}) a(t)`
}

/** Wraps any other `select`: without `offset 0`, which costs nothing, PostgreSQL would flatten it and make the text twice. */
export function boundedRowText (select: string): string {
  return boundedText(`${select} offset 0`)
}

/** A column with a text, if it is no larger than the bound. */
export function boundedColumn (column: string): string {
  const size = `octet_length(${column})`
  return `case when ${size} > ${maxAnswerBytes} then ${tooLarge(size)} else ${column} end`
}

/**
 * An expression that fails when it is evaluated, with SQLSTATE 2201G, which the engines answer as `answerTooLarge`. `size`
 * is a number from 0 of the row, so that PostgreSQL does not evaluate it beforehand.
 */
export function tooLarge (size: string): string {
  return `width_bucket(0::float8, 0, 1, -${size})::text`
}
