/** The shapes of answers (DESIGN 3, "What a configured route answers") as they are seen in JavaScript. */
import { isRecord } from '../plain-value.js'

/**
 * Bytes of JSON that one statement answers at most, and that one request's templates copy. More than a page of records of
 * any sensible size has, and little enough that some such answers at a time fit the memory of a small server.
 */
export const maxAnswerBytes = 16_777_216

type Members = Readonly<Record<string, unknown>>

/** An answer that wraps its records: `{data: [...]}` or `{data: [...], pagination: {...}}`. */
export interface Envelope extends Members {
  readonly data: readonly unknown[]
}

/** Whether an answer is a page or a list of records, and no single record with a column named `data`. */
export function isEnvelope (answer: unknown): answer is Envelope {
  if (!isRecord(answer) || !Array.isArray(answer['data'])) return false
  const names = Object.keys(answer)
  return names.length === 1 || (names.length === 2 && Object.hasOwn(answer, 'pagination'))
}
