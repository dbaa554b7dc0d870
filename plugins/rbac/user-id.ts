/** Which users can have roles: those whose `sub` the database keeps as it is. */

export const maxUserId = 256 // characters as JSON Schema counts them, of which JavaScript counts some as two

/** A text that is not too long, without NUL and halves of characters, which PostgreSQL's text has none of. */
export function isUserId (sub: string): boolean {
  return sub !== '' && sub.length <= 2 * maxUserId && !unstorable.test(sub)
}

const unstorable = /[\0\p{Surrogate}]/u
