import { availableParallelism } from 'node:os'

/**
 * Connections of each server's pool in the comparison of tenants. A database on the same machine serves most requests with this number
 * (docs/operations/engines.md). With more, busy connections take turns, and each request costs more.
 */
export const poolSize = 2 * availableParallelism() + 1
