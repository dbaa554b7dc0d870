/** `If-Match` on declared writes. The current version is that of the `GET` route on the same path, read in the write's transaction. */
import { isLongValidation } from '../compiler/request.js'
import type { CompiledRoute } from '../compiler/route.js'
import { checksIfMatch, isolationOf, supportsIfMatch } from '../compiler/write-headers.js'
import { failure, isFailure } from '../errors.js'
import type { Scope } from '../expressions/types.js'
import { ifMatchOf, requireMatch, tagOfBody } from '../http/caching.js'
import { inTurn, unrefused } from './computing.js'
import type { RouteCall } from './route-call.js'
import { type Guard, readIn, type Stores } from './run.js'
import { secretsFor, type SecretSource } from './secrets.js'
import type { Access } from './services.js'

/** Creates the guard for the scope of the write. */
export type CreateGuard = (scope: Scope) => Promise<Guard>

/**
 * undefined for requests without `If-Match`, and for routes that do not support it. Throws `badRequest` for a malformed header,
 * and for a route without a version: ignoring the header would lose the changes that it protects. Call it before validation
 * converts the request's parameters.
 */
export function guardCreatorOf (
  write: CompiledRoute,
  origin: { readOnPath(): CompiledRoute | null },
  source: SecretSource & { readonly access: Access },
  request: RouteCall
): CreateGuard | undefined {
  if (!checksIfMatch(write)) return undefined
  const match = ifMatchOf(request)
  if (match === undefined) return undefined
  const read = origin.readOnPath()
  if (read === null || !supportsIfMatch(write, read)) {
    throw failure('badRequest', {
      message: 'This route does not support If-Match, because no GET route on its path returns a version: send the request without it'
    })
  }
  const asked = { params: { ...Object(request.params) }, query: { ...Object(request.query) }, body: undefined }
  return async (scope) => {
    await source.access.requirePermissions(request, read.permissions)
    if (isLongValidation(read.request, request)) {
      await inTurn({ worker: request, length: 0, turns: unrefused }, () => read.request.validate(asked))
    } else read.request.validate(asked)
    const readScope = { ...scope, ...asked, secrets: await secretsFor(read, source, request), events: false }
    return {
      isolation: isolationOf(match, write, read),
      async check (stores) {
        requireMatch(match, await tagIn(stores, read, { ...readScope, results: {} }))
      }
    }
  }
}

/** null if there is no record. A body that is too large for a tag matches only `*`. */
async function tagIn (stores: Stores, read: CompiledRoute, scope: Scope): Promise<string | null> {
  try {
    return tagOfBody(await readIn(stores, read, scope)) ?? ''
  } catch (error) {
    if (isFailure(error, 'notFound')) return null
    throw error
  }
}
