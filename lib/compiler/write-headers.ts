/** The request headers of declared writes: Idempotency-Key, and If-Match with the isolation of its transaction. */
import type { Isolation } from '../database/engine.js'
import type { Precondition } from '../http/caching.js'
import type { Route } from '../schema/route.js'
import type { CompiledRoute } from './route.js'
import { methodOf } from './route-parts.js'

export function takesIdempotencyKey ({ method, webhook, write, integrations, workflow, realtime }: CompiledRoute): boolean {
  return method === 'POST' && webhook === null && (write || integrations.length > 0 || workflow !== null || realtime !== null)
}

const ifMatchHeader = 'if-match'

/** `GET` routes by path: they show the versions of the data that other routes on the path change. */
export function readsByPath<Of> (routes: Iterable<Of>, declared: (route: Of) => Route): ReadonlyMap<string, Of> {
  const reads = new Map<string, Of>()
  for (const route of routes) if (methodOf(declared(route)) === 'GET') reads.set(declared(route).path, route)
  return reads
}

/** Whether the route must not ignore the header. Signed webhooks, and routes that read the header themselves, are exempt. */
export function checksIfMatch ({ method, webhook, readsHeaders }: Pick<CompiledRoute, 'method' | 'webhook' | 'readsHeaders'>): boolean {
  return method !== 'GET' && webhook === null && !readsHeaders.some((name) => name.toLowerCase() === ifMatchHeader)
}

/**
 * Whether the write can compare `If-Match` with the version of this `GET` route on its path. The `GET` route must be readable in
 * a transaction, that is, without calls to other services. Every caller with the permissions of both routes must be able to reach
 * the `GET` route.
 */
export function supportsIfMatch (write: CompiledRoute, read: CompiledRoute): boolean {
  return checksIfMatch(write) && write.method !== 'POST' && write.workflow === null && write.write &&
    read.isRead && read.webhook === null && read.integrations.length === 0 && isReadableBy(write, read) && inOneStore(write, read)
}

/** No transaction spans the SQL database and Firestore. */
function inOneStore (write: CompiledRoute, read: CompiledRoute): boolean {
  return new Set([...write.queries, ...read.queries].map(({ store }) => store)).size <= 1
}

function isReadableBy (write: CompiledRoute, read: CompiledRoute): boolean {
  return read.authProvider === write.authProvider &&
    (write.requireAuth || (!read.requireAuth && (read.publicTenant || !write.publicTenant)))
}

/**
 * The isolation that separates two writers of one version. If the version is that of one row, the writers that change it conflict
 * at this row. Otherwise they can change different rows, and the database must detect that the data they read has changed.
 */
export function isolationOf (
  match: Precondition,
  write: Pick<CompiledRoute, 'queries'>,
  read: Pick<CompiledRoute, 'queries'>
): Isolation | undefined {
  const failsWithoutRow = write.queries.some(({ write, status, missing }) => write && status === 200 && missing === 'notFound')
  if (match === '*' && failsWithoutRow) return undefined
  const [query, ...others] = read.queries
  return query?.ofOneRow === true && others.length === 0 ? 'repeatable read' : 'serializable'
}
