/** Schemas and errors of the hand-written server. */
import { STATUS_CODES } from 'node:http'
import type { FastifyError } from 'fastify'

const article = {
  type: 'object',
  properties: {
    id: { type: 'string' },
    tenant_id: { type: 'string' },
    title: { type: 'string' },
    body: { type: 'string' },
    status: { type: 'string' },
    views: { type: 'integer' },
    created_at: { type: 'string', format: 'date-time' }
  }
}

const error = {
  type: 'object',
  properties: {
    error: { type: 'string' },
    message: { type: 'string' },
    code: { type: 'string' },
    requestId: { type: 'string' }
  }
}

export const schemas = {
  read: {
    params: { type: 'object', required: ['id'], properties: { id: { type: 'string', format: 'uuid' } } },
    response: { 200: article, '4xx': error }
  },
  list: {
    querystring: {
      type: 'object',
      additionalProperties: false,
      properties: {
        limit: { type: 'integer', minimum: 0, default: 20 },
        offset: { type: 'integer', minimum: 0, default: 0 }
      }
    },
    response: {
      200: {
        type: 'object',
        properties: {
          data: { type: 'array', items: article },
          pagination: {
            type: 'object',
            properties: { limit: { type: 'integer' }, offset: { type: 'integer' }, total: { type: 'integer' } }
          }
        }
      },
      '4xx': error
    }
  },
  insert: {
    body: {
      type: 'object',
      additionalProperties: false,
      required: ['title', 'body'],
      properties: {
        title: { type: 'string', minLength: 1, maxLength: 200 },
        body: { type: 'string', maxLength: 10_000 },
        status: { type: 'string', enum: ['draft', 'pending_review', 'published'] },
        views: { type: 'integer', minimum: 0 }
      }
    },
    response: { 201: article, '4xx': error }
  },
  touch: {
    params: { type: 'object', required: ['id'], properties: { id: { type: 'string', format: 'uuid' } } },
    response: {
      200: { type: 'object', properties: { workflowId: { type: 'string' }, status: { type: 'string' }, result: article } },
      '4xx': error
    }
  },
  greet: {
    params: { type: 'object', required: ['name'], properties: { name: { type: 'string', maxLength: 50 } } },
    querystring: { type: 'object', additionalProperties: false, properties: { page: { type: 'integer', minimum: 0, default: 1 } } },
    response: {
      200: {
        type: 'object',
        properties: {
          message: { type: 'string' },
          tenant: { type: 'string' },
          caller: { type: 'object', properties: { id: { type: 'string' }, role: { type: 'string' } } },
          page: { type: 'integer' }
        }
      },
      '4xx': error
    }
  }
}

export class HttpError extends Error {
  readonly statusCode: number
  readonly code: string
  readonly title: string

  constructor (statusCode: number, message: string, code: string) {
    super(message)
    this.statusCode = statusCode
    this.code = code
    this.title = STATUS_CODES[statusCode] ?? 'Error'
  }

  /** Errors that Fastify itself threw. */
  static from (error: FastifyError, status: number): HttpError {
    if (error.validation !== undefined) return new HttpError(400, 'Validation failed', 'TENANTRY_VALIDATION_FAILED')
    if (error.code === 'FST_ERR_CTP_INVALID_JSON_BODY') return new HttpError(400, 'The body is not valid JSON', 'TENANTRY_BAD_REQUEST')
    if (status === 400) return new HttpError(400, 'The request cannot be read', 'TENANTRY_BAD_REQUEST')
    return new HttpError(status, status >= 500 ? 'An unexpected error occurred' : error.message, error.code)
  }
}
