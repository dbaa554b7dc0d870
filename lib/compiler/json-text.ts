/** JSON text of single values, on the way of each response. */

// What a JSON string escapes: quotes, backslashes, control characters and lone surrogates.
const escaped = /["\\\u0000-\u001f\ud800-\udfff]/ // eslint-disable-line no-control-regex -- JSON has them as escapes only
const shortText = 64 // characters up to which looking first is faster than JSON.stringify

/** The same as JSON.stringify; undefined for undefined. */
export function toJsonText (value: unknown): string | undefined {
  switch (typeof value) {
    case 'string': return value.length <= shortText && !escaped.test(value) ? `"${value}"` : JSON.stringify(value)
    case 'number': return Number.isFinite(value) ? String(value) : 'null'
    case 'boolean': return value ? 'true' : 'false'
    case 'undefined': return undefined
    default: return value === null ? 'null' : JSON.stringify(value)
  }
}
