/** Of which users something is stored: those whose id, the `sub` of their tokens, the database keeps as it is. */

import { isStorable } from '../json/storable.js'

/** As JavaScript counts them, some characters as two: what an index holds. */
export const maxUserIdLength = 512

/** A text that is not empty and not too long, without NUL and halves of characters, which PostgreSQL's text has none of. */
export function isUserId (sub: string): boolean {
  return sub !== '' && sub.length <= maxUserIdLength && isStorable(sub)
}
