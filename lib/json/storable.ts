/** Characters that PostgreSQL cannot store: NUL and lone surrogates. */

const unstorable = /[\0\p{Surrogate}]/u
const eachUnstorable = /[\0\p{Surrogate}]/gu
// Each escape of a string is matched as a whole, so that an escaped backslash hides none.
const escapes = /\\(?:u0000|ud[89a-f][\da-f]{2}|.)/g

/** The texts without such characters, as a pattern of JSON Schema. */
export const storablePattern = '^[^\\u0000\\ud800-\\udfff]*$'

/** The fault of a value with such a character, for messages. */
export const unstorableText = 'must not contain the character NUL (U+0000) or half of a surrogate pair'

export function isStorable (text: string): boolean {
  return !unstorable.test(text)
}

/** The text with U+FFFD for each such character, so that texts of different characters do not become one. */
export function storable (text: string): string {
  return text.replace(eachUnstorable, '\uFFFD')
}

/** The same for JSON text that `stringifyJson` wrote. */
export function storableJson (text: string): string {
  return text.replace(escapes, (escape) => escape.length > 2 ? '\uFFFD' : escape)
}

/** Like `isStorable`, for JSON text, which has these characters as escapes. Texts of callers may have them in capital letters. */
export function isStorableJson (text: string): boolean {
  const hasEscapes = text.includes('\\u0000') || text.includes('\\ud') || text.includes('\\uD')
  return !(hasEscapes && /(?<!\\)(?:\\\\)*\\u(?:0000|[dD])/.test(text))
}
