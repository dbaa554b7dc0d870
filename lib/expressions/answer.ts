/** The shapes of answers as JavaScript sees them. */
import type { Answer, AnswerForm } from './types.js'
import { isRecord } from '../json/plain-value.js'

/**
 * Bytes of JSON that one statement answers at most, and that one request's templates copy. More than a page of records of
 * any sensible size has, and little enough that some such answers at a time fit the memory of a small server.
 */
export const maxAnswerBytes = 16_777_216

/** The form of what one query answers. */
export function formOf (answer: Answer): AnswerForm {
  return answer === 'page' || answer === 'cursorPage' || answer === 'records' ? 'wrapped' : 'record'
}

/** The records of an answer; null where the answer itself is the record. */
export function recordsOf (answer: unknown, form: AnswerForm): readonly unknown[] | null {
  switch (form) {
    case 'wrapped':
      return isRecord(answer) && Array.isArray(answer['data']) ? answer['data'] : []
    case 'value':
      return Array.isArray(answer) ? answer : null
    case 'record':
      return null
  }
}
