import { availableParallelism } from 'node:os'

/**
 * Connections of each server's pool where tenants are compared: with as many a database that shares the machine's
 * processors serves most (docs/operations/engines.md). With more, all that are busy at once take turns, and each request
 * costs more.
 */
export const poolSize = 2 * availableParallelism() + 1
