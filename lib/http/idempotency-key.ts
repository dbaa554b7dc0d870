/** The header Idempotency-Key, with which a caller repeats a request after a lost response. */
import type { IncomingHttpHeaders } from 'node:http'
import { Type } from 'typebox'
import { invalidInput } from '../validation/detail.js'

export const idempotencyHeader = 'idempotency-key'
const keyPattern = '^[\\x21-\\x7E]{1,255}$'
const expected = '1 to 255 visible ASCII characters, sent once'
const accepted = new RegExp(keyPattern)

/** The headers of an endpoint that passes the key on. */
export function IdempotencyHeaders (description: string) {
  return Type.Object({ [idempotencyHeader]: Type.Optional(Type.String({ pattern: keyPattern, expected, description })) })
}

/** The key of a request; undefined without one. Throws `validationFailed`. */
export function idempotencyKeyIn (headers: IncomingHttpHeaders): string | undefined {
  const key = headers[idempotencyHeader]
  if (key === undefined) return undefined
  // Node joins repeated headers with a comma and a space.
  if (typeof key === 'string' && accepted.test(key)) return key
  throw invalidInput(`/headers/${idempotencyHeader}`, `must be ${expected}`, 'pattern')
}

/** The parameter as `/doc` shows it. */
export const idempotencyParameter = {
  in: 'header',
  name: 'Idempotency-Key',
  required: false,
  description:
    'A key that identifies this request. If the same key and body are sent again within 24 hours, the request is not repeated: the response is the first one, with `Idempotency-Replayed: true`.',
  schema: { type: 'string', pattern: keyPattern }
}
