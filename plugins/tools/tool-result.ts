/** The results of tool calls: the text of a response, or an error. */
import { failure, TenantryError } from '../../lib/errors.js'
import { withExactTexts } from '../../lib/json/parse.js'
import { isRecord } from '../../lib/json/plain-value.js'
import { withDetails } from '../../lib/validation/detail.js'
import type { ToolResult } from './types.js'

/** @param isTrusted whether this server wrote the text as JSON */
export function resultOf (text: string, isTrusted: boolean): ToolResult {
  if (text === '') return { text, isJson: false }
  try {
    const json = withExactTexts(text)
    return { text: isTrusted ? json : JSON.stringify(JSON.parse(json)), isJson: true }
  } catch {
    return { text, isJson: false }
  }
}

/** The parsed JSON, or the text if it is not JSON; null without a body. */
export function valueOf ({ text, isJson }: ToolResult): unknown {
  if (isJson) return JSON.parse(text)
  return text === '' ? null : text
}

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
  return new TenantryError({ code, status, title: error, message }, { message: withDetails(message, details).slice(0, maxMessage) })
}
