/**
 * What every route group speaks: JSON in, JSON out, errors of the catalogue (DESIGN 12). A service plugin (fp) that
 * sets the error handler, the validator and the body parser of the context that registers it and of nothing above it,
 * so that a group can be registered in any app. Registering it twice in one context is harmless.
 */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { STATUS_CODES } from 'node:http'
import { failure } from '../lib/errors.js'
import { validatorCompiler } from '../lib/validation.js'
import { answerError } from './conventions/error-handler.js'
import { createJsonParser } from './conventions/json-body.js'

export interface ConventionsOptions {
  /** The context is the server's root: unknown paths are answered with `notFound`. Default: false. */
  readonly root?: boolean
}

/** The id of the schema of error bodies; `/doc` shows it as the component `Error`. */
export const errorSchemaId = 'TenantryError'

export const errorSchema = {
  $id: errorSchemaId,
  type: 'object',
  description: 'The body of every error.',
  properties: {
    error: { type: 'string', description: 'The short name of the status.' },
    message: { type: 'string', description: 'What is wrong, and what to do about it.' },
    code: { type: 'string', description: 'The stable code of the error: `TENANTRY_...`.' },
    requestId: { type: 'string', description: "The request's id in the log." }
  },
  required: ['error', 'message', 'code', 'requestId'],
  additionalProperties: true
}

const equipped = new WeakSet<FastifyInstance>()

export async function conventions (app: FastifyInstance, options: ConventionsOptions): Promise<void> {
  if (equipped.has(app)) return
  equipped.add(app)
  app.setErrorHandler(answerError)
  app.setValidatorCompiler(validatorCompiler)
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, createJsonParser(app))
  if (app.getSchema(errorSchemaId) === undefined) app.addSchema(errorSchema)
  if (options.root === true) app.setNotFoundHandler(() => { throw failure('notFound') })
}

export default fp(conventions, { name: 'tenantry-conventions', fastify: '5.x' })

/** A response schema that refers to the shared schema of error bodies. */
export interface ErrorResponse {
  readonly description: string
  readonly $ref: string
}

/** Response schemas of the error body for a route's `schema.response`: `{ ...errorResponses(400, 404) }`. */
export function errorResponses (...statuses: readonly number[]): Record<number, ErrorResponse> {
  return Object.fromEntries(statuses.map((status) => [status, { description: STATUS_CODES[status] ?? 'Error', $ref: `${errorSchemaId}#` }]))
}
