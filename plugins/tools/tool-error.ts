/** Errors of tool calls. */
import { failure, TenantryError } from '../../lib/errors.js'
import { isRecord } from '../../lib/json/plain-value.js'

const maxDetails = 5 // of a validation error, in one message
const maxMessage = 1000 // characters

export function tooLarge (maxBytes: number): Error {
  return failure('answerTooLarge', { message: `The result has more than ${maxBytes} bytes: request fewer records or fields` })
}

/** The route's own error. Its message says which values are wrong. */
export function errorOf (status: number, body: unknown): TenantryError {
  const { code, error, message, details } = isRecord(body) ? body : {}
  if (typeof code !== 'string' || typeof message !== 'string' || typeof error !== 'string') {
    return failure('toolFailed', { message: `The tool failed with the status ${status}` })
  }
  const faults = Array.isArray(details)
    ? details.filter(isRecord).slice(0, maxDetails).map((detail) => `${String(detail['path'])} ${String(detail['message'])}`.trim())
    : []
  const whole = [message, ...faults].join('; ')
  return new TenantryError({ code, status, title: error, message }, { message: whole.slice(0, maxMessage) })
}
