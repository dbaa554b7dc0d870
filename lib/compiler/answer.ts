/** The shapes of answers (DESIGN 3, "What a configured route answers") as they are seen in JavaScript. */

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

/** Whether a value is a JSON object. */
export function isRecord (value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
