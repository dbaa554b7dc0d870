/** The shapes of responses, as expressions see them. */
import { isRecord } from '../json/plain-value.js'
import type { ResultForm, ResultKind } from './types.js'

/** Bytes of JSON that one statement returns and one request's templates copy at most. Several such responses fit a small server. */
export const maxResultBytes = 16_777_216

/** The form of one query's result, or of a call's (`value`). */
export function formOf (kind: ResultKind | 'value'): ResultForm {
  if (kind === 'value') return kind
  return kind === 'page' || kind === 'cursorPage' || kind === 'records' ? 'wrapped' : 'record'
}

/** The records of a result; null if the result itself is the record. */
export function recordsOf (result: unknown, form: ResultForm): readonly unknown[] | null {
  switch (form) {
    case 'wrapped':
      return isRecord(result) && Array.isArray(result['data']) ? result['data'] : []
    case 'value':
      return Array.isArray(result) ? result : null
    case 'record':
      return null
  }
}
