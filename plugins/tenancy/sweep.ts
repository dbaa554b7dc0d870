/** Removes the records of deleted tenants once every valid token was issued after the deletion. */
import type { Erasure } from './erasure.js'
import type { TenantStore } from './store.js'

const maxForgotten = 100 // tenants an hour: each needs a statement for every table
const clockDifference = 86_400_000 // ms of clock difference between servers and issuers, with a large margin

export interface ForgettingParts {
  readonly store: Pick<TenantStore, 'longDeleted' | 'forget'>
  readonly erasure: Pick<Erasure, 'sweep'>
  /** The maximum life of a token in seconds. */
  readonly maxLifetime: number
}

/**
 * Removes the ids of deleted tenants, which prevent older tokens from entering a later tenant with the id. Ids of tenants that exist
 * again stay, because billing compares events with them. Resolves with the number of removed ids.
 *
 * @param now milliseconds since 1970
 */
export async function forgetDeleted ({ store, erasure, maxLifetime }: ForgettingParts, now: number): Promise<number> {
  const before = new Date(now - maxLifetime * 1000 - clockDifference)
  const ids = await store.longDeleted(before, maxForgotten)
  const errors: unknown[] = []
  for (const id of ids) {
    try {
      // Removes rows that a request wrote after the deletion. Without the record, the creation of a tenant would no longer remove them.
      await erasure.sweep(id)
      await store.forget(id, before)
    } catch (error) {
      errors.push(error)
    }
  }
  if (errors.length > 0) throw new AggregateError(errors, 'some deleted tenants are kept, since rows of them cannot be removed')
  return ids.length
}
