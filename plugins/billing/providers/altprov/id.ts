/** Ids from callers, from the product map and from the database. */
import { failure } from '../../../../lib/errors.js'

/** Throws `notFound` for a text that cannot be an id of the provider: it would change the path. */
export function checkId (id: string): void {
  if (!/^\w[\w.-]{0,254}$/.test(id)) throw failure('notFound')
}
