/** Ids as they come from callers, from the product map and out of the database. */
import { failure } from '../../../../lib/errors.js'

/** Throws `notFound` for what the provider never gives out: a path would be another one with it. */
export function checkId (id: string): void {
  if (!/^\w[\w.-]{0,254}$/.test(id)) throw failure('notFound')
}
