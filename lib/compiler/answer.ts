/** The shapes of answers as JavaScript sees them. */
import type { Answer } from './types.js'
import { isRecord } from '../plain-value.js'

/**
 * Bytes of JSON that one statement answers at most, and that one request's templates copy. More than a page of records of
 * any sensible size has, and little enough that some such answers at a time fit the memory of a small server.
 */
export const maxAnswerBytes = 16_777_216

/**
 * Where the records of an answer are, as the compiled route knows it. The shape of a value does not tell: a record may have
 * one column named `data`.
 * - `wrapped`: in the member `data`, beside which `pagination` may stand
 * - `value`: the answer of a service: each item where it is a list, and otherwise the answer itself
 * - `record`: the answer itself
 */
export type AnswerForm = 'wrapped' | 'value' | 'record'

/** The form of what one query answers. */
export function formOf (answer: Answer): AnswerForm {
  return answer === 'page' || answer === 'records' ? 'wrapped' : 'record'
}

/** The records of an answer; null where the answer itself is the record. */
export function recordsOf (answer: unknown, form: AnswerForm): readonly unknown[] | null {
  switch (form) {
    case 'wrapped': return isRecord(answer) && Array.isArray(answer['data']) ? answer['data'] : []
    case 'value': return Array.isArray(answer) ? answer : null
    case 'record': return null
  }
}
