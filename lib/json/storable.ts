/** Characters that PostgreSQL does not store: NUL, and a half of a surrogate pair without the other. */

const unstorable = /[\0\p{Surrogate}]/u

/** What is wrong with a value that holds such a character, for messages. */
export const unstorableText = 'must not hold the character NUL (U+0000) or half of a surrogate pair'

export function isStorable (text: string): boolean {
  return !unstorable.test(text)
}

/** The same for the text of JSON, which has these characters as escapes. */
export function isStorableJson (text: string): boolean {
  return !((text.includes('\\u0000') || text.includes('\\ud')) && /(?<!\\)(?:\\\\)*\\u(?:0000|d)/.test(text))
}
