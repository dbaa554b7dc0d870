/**
 * The conventions of every group of endpoints, for an app's own routes: errors of the catalogue, validation and JSON bodies. It sets the
 * error handler, the validator and the body parser of its context only. Registering it twice in one context is harmless.
 */
import type { FastifyRequest, preParsingHookHandler } from 'fastify'
import { paginationOf } from '../../lib/document/rules/sections.js'
import { failure } from '../../lib/errors.js'
import { equip } from '../../lib/http/equip.js'
import { methodNotAllowed, routePathsOf } from '../../lib/http/route-paths.js'
import { definePlugin } from '../../lib/plugin/define.js'
import { flag, record, section } from '../../lib/plugin/options.js'
import type { Settable } from '../../lib/schema/annotations.js'
import { withoutFaults } from '../../lib/schema/faults.js'
import { type Pagination, Pagination as PaginationSection } from '../../lib/schema/pagination.js'
import { asksForHome, type Home, sendHome } from './home.js'

export { errorResponses, errorSchema, errorSchemaId, type ErrorResponse } from '../../lib/http/error-schemas.js'
export type { SchemaTypes } from '../../lib/http/schema-types.js'
export type { Home } from './home.js'

export interface ConventionsOptions {
  /** The context is the root of the server: unknown paths get the error `notFound`, known ones `methodNotAllowed`. Default: false. */
  readonly root?: boolean | undefined
  /**
   * With `root`: the response to `GET /` if neither the app nor the caller's tenant has a route on that path. Default: the error
   * `notFound`.
   */
  readonly home?: Home | undefined
  /**
   * The document's `pagination`, with its defaults: page sizes of built-in lists in this context and below. Default: those of the parent
   * context, else 20, at most 100.
   */
  readonly pagination?: Settable<Pagination> | undefined
}

const noRoute = { path: '', message: 'neither the server nor the tenant of the caller has a route with this path', keyword: 'route' }

export default definePlugin<ConventionsOptions>({
  name: 'conventions',
  observesRoutes: true,
  options: { root: flag, home: record, pagination: section(PaginationSection) },
  setup (app, { root = false, home, pagination }) {
    const pages = pagination && withoutFaults((faults) => paginationOf(pagination, faults))
    if (!equip(app)) return undefined
    if (pages !== undefined) app.decorate('pagination', pages)
    if (!root) return undefined
    const paths = routePathsOf(app)
    // Not a route: it would hide a tenant's own route on `/`, and conflict with one of the server.
    const homeFor = (request: FastifyRequest) => asksForHome(request) && paths.methodsOf(request.url).length === 0 ? home : undefined
    const faultFor = (request: FastifyRequest): Error => {
      const methods = paths.methodsOf(request.url)
      if (methods.length === 0) return failure('notFound', { extras: { details: [noRoute] } })
      // The route itself found nothing (`reply.callNotFound`), or one of its constraints excludes the request.
      return methods.includes(request.method) ? failure('notFound') : methodNotAllowed(methods, request)
    }
    // The body stays unread: a request without a route has no bound for it.
    const refuse: preParsingHookHandler = (request, _reply, _payload, done) =>
      homeFor(request) === undefined ? done(faultFor(request)) : done()
    // Fastify accepts all hooks of a route here. Its types name `preHandler` and `preValidation` only.
    const hooks = { preParsing: refuse, preHandler: [] }
    app.setNotFoundHandler(hooks, (request, reply) => {
      const page = homeFor(request)
      if (page === undefined) throw faultFor(request)
      return sendHome(reply, page)
    })
  }
})
