/** Rows of `tenantry.tenants` by the life of their tenant: a later tenant of the same id has another row. */
import { type RawBuilder, sql } from 'kysely'

/**
 * Whether the tenant was created at that time.
 *
 * @param createdAt the column
 * @param since milliseconds since 1970, as a `Date` has them: without the column's microseconds
 */
export function isCreatedAt (createdAt: RawBuilder<unknown>, since: RawBuilder<unknown>): RawBuilder<boolean> {
  return sql<boolean>`(${createdAt} >= to_timestamp(${since}::float8 / 1000) and ${createdAt} < to_timestamp((${since} + 1)::float8 / 1000))`
}
