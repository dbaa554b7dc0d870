/**
 * What every route group speaks: JSON in, JSON out, errors of the catalogue (DESIGN 12). A service plugin (fp) that
 * sets the error handler, the validator and the body parser of the context that registers it and of nothing above it,
 * so that a group can be registered in any app. Registering it twice in one context is harmless.
 */
import type {} from './openapi/documentation.js'
import type { FastifyInstance, preValidationHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import { failure } from '../lib/errors.js'
import { validatorCompiler } from '../lib/validation.js'
import { answerError } from './conventions/error-handler.js'
import { errorSchemas } from './conventions/error-schemas.js'
import { createJsonParser } from './conventions/json-body.js'
import type { Pagination } from './conventions/page.js'
import { watchRoutes } from './guards.js'

export { errorResponses, errorSchema, errorSchemaId, type ErrorResponse } from './conventions/error-schemas.js'

export interface ConventionsOptions {
  /** The context is the server's root: unknown paths are answered with `notFound`. Default: false. */
  readonly root?: boolean
  /** The document's `pagination`: sizes of pages of built-in lists in this context and below. Default: that of the context above, else 20, at most 100. */
  readonly pagination?: Pagination | undefined
}

const equipped = new WeakSet<FastifyInstance>()

export async function conventions (app: FastifyInstance, options: ConventionsOptions): Promise<void> {
  if (equipped.has(app)) return
  equipped.add(app)
  watchRoutes(app)
  app.setErrorHandler(answerError)
  if (options.pagination !== undefined) app.decorate('pagination', options.pagination)
  app.setValidatorCompiler(validatorCompiler)
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, createJsonParser(app))
  app.addHook('onRoute', (route) => {
    if (route.schema?.bodyOptional === true) route.preValidation = [route.preValidation ?? [], fillBody].flat()
  })
  for (const schema of errorSchemas) if (app.getSchema(schema.$id) === undefined) app.addSchema(schema)
  if (options.root === true) app.setNotFoundHandler(() => { throw failure('notFound') })
}

/** Nothing has to be said: a request without a body is one of an empty object. */
const fillBody: preValidationHookHandler = (request, _reply, done) => {
  request.body ??= {}
  done()
}

export default fp(conventions, { name: 'tenantry-conventions', fastify: '5.x' })
