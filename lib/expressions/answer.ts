/** The shapes of responses, as expressions see them. */
import type { Answer, AnswerForm } from './types.js'
import { isRecord } from '../json/plain-value.js'

/**
 * Bytes of JSON that one statement returns at most, and that one request's templates copy. More than any sensible page of records, and
 * little enough that several such responses fit the memory of a small server.
 */
export const maxAnswerBytes = 16_777_216

/** The form of one query's result. */
export function formOf (answer: Answer): AnswerForm {
  return answer === 'page' || answer === 'cursorPage' || answer === 'records' ? 'wrapped' : 'record'
}

/** The records of a result; null if the result itself is the record. */
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
