/** Ids of users, the `sub` of their tokens, that the database can store unchanged. */

import { isStorable } from '../json/storable.js'

/** UTF-16 units: the limit of an index. */
export const maxUserIdLength = 512

/** A text that is not empty and not too long, without NUL and lone surrogates, which PostgreSQL cannot store. */
export function isUserId (sub: string): boolean {
  return sub !== '' && sub.length <= maxUserIdLength && isStorable(sub)
}
