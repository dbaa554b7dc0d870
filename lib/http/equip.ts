/** The conventions of every group of endpoints: JSON bodies, validation by our schemas, and errors of the catalogue. */
import type { FastifyInstance, FastifySchemaCompiler, preValidationHookHandler } from 'fastify'
import { validatorCompiler } from '../validation/validator.js'
import { endErrorLog, handleError } from './error-handler.js'
import { errorSchemas } from './error-schemas.js'
import { watchRoutes } from './guards.js'
import { createJsonParser } from './json-body.js'

declare module 'fastify' {
  interface FastifySchema {
    /** A request without a body counts as one with an empty object. */
    bodyOptional?: boolean
  }
}

const equipped = new WeakSet<FastifyInstance>()

/** Sets the error handler, the validator and the body parser of this context and below. A second call does nothing, and returns false. */
export function equip (app: FastifyInstance): boolean {
  if (equipped.has(app)) return false
  equipped.add(app)
  watchRoutes(app)
  app.setErrorHandler(handleError)
  app.addHook('onClose', async () => endErrorLog(app))
  validateIn(app)
  app.addHook('onRegister', (child) => {
    const { validatorCompiler: inherited } = child
    if (inherited !== undefined && compilers.has(inherited)) validateIn(child)
  })
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, createJsonParser(app))
  app.addHook('onRoute', (route) => {
    if (route.schema?.bodyOptional === true) route.preValidation = [route.preValidation ?? [], fillBody].flat()
  })
  addErrorSchemas(app)
  return true
}

/** The compilers that `validateIn` has set. */
const compilers = new WeakSet<FastifySchemaCompiler<object>>()

/** A compiler for this context alone, since a child may share further schemas. */
function validateIn (context: FastifyInstance): void {
  const compiler: FastifySchemaCompiler<object> = (route) => validatorCompiler(route, () => context.getSchemas())
  compilers.add(compiler)
  context.setValidatorCompiler(compiler)
}

const errorSchemaIds: ReadonlyMap<unknown, string> = new Map(errorSchemas.map((schema) => [schema, schema.$id]))

/** A parent context may get them later: Fastify then adds them to its children, and throws if they already exist there. */
function addErrorSchemas (app: FastifyInstance): void {
  const { addSchema } = app
  app.addSchema = function (schema) {
    const id = errorSchemaIds.get(schema)
    return id !== undefined && this.getSchema(id) !== undefined ? this : addSchema.call(this, schema)
  }
  for (const schema of errorSchemas) if (app.getSchema(schema.$id) === undefined) app.addSchema(schema)
}

const fillBody: preValidationHookHandler = (request, _reply, done) => {
  request.body ??= {}
  done()
}
