/** The shapes of responses, as expressions see them. */
import { isRecord } from '../json/plain-value.js'

/**
 * The JSON text of a query's result:
 * - `page`: `{"data":[...],"pagination":{"limit","offset","total"}}`, always present
 * - `cursorPage`: `{"data":[...],"pagination":{"limit","next"}}`, always present
 * - `record`: the record, or no row (the route answers 404)
 * - `records`: `{"data":[...]}`, always present
 * - `deletion`: `{"success":true}`, with `"softDeleted":true` for a soft delete; no row if none matched (404)
 */
export type ResultKind = 'page' | 'cursorPage' | 'record' | 'records' | 'deletion'

/**
 * The place of the records in a response, as the compiled route defines it. The value's shape is ambiguous: a record may have one column
 * named `data`.
 * - `wrapped`: in the member `data`, possibly beside `pagination`
 * - `value`: a service's response: each item of a list, or the response itself
 * - `record`: the response itself
 */
export type ResultForm = 'wrapped' | 'value' | 'record'

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
