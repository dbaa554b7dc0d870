/** The text of a response, for callers of tools. */
import type { ToolResult } from './types.js'
import { isExact } from '../../lib/json/exact-number.js'
import { mayHoldExact, parseJson } from '../../lib/json/parse.js'
import { isRecord } from '../../lib/json/plain-value.js'

/** @param isTrusted whether this server wrote the text as JSON */
export function resultOf (text: string, isTrusted: boolean): ToolResult {
  if (text === '') return { text, isJson: false }
  if (isTrusted && !mayHoldExact(text)) return { text, isJson: true }
  try {
    return { text: JSON.stringify(withoutExact(parseJson(text))), isJson: true }
  } catch {
    return { text, isJson: false }
  }
}

/** The parsed JSON, or the text if it is not JSON; null without a body. */
export function valueOf ({ text, isJson }: ToolResult): unknown {
  if (isJson) return JSON.parse(text)
  return text === '' ? null : text
}

function withoutExact (value: unknown): unknown {
  if (isExact(value)) return String(value)
  if (Array.isArray(value)) return value.map(withoutExact)
  return isRecord(value) ? Object.fromEntries(Object.entries(value).map(([name, member]) => [name, withoutExact(member)])) : value
}
