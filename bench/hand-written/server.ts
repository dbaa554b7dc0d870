/**
 * The server that tenantry is compared with: the same API as bench/tenantry's document, written by hand like a good Fastify service:
 * prepared statements, schemas for requests and responses, cached token verification, and no unnecessary work per request.
 */
import { randomUUID } from 'node:crypto'
import fastifyJwt from '@fastify/jwt'
import rateLimit from '@fastify/rate-limit'
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import Fastify, { LogController } from 'fastify'
import pg from 'pg'
import { serve } from '../server-process.js'
import { HttpError, schemas } from './schemas.js'
import { statements } from './statements.js'

declare module '@fastify/jwt' {
  interface FastifyJWT {
    user: { sub: string, role: string, tenant_id: string }
  }
}

interface ArticleInput {
  title: string
  body: string
  status?: string
  views?: number
}

await serve(async ({ connectionString, jwtSecret }) => {
  const pool = new pg.Pool({ connectionString, max: 10 })
  const app = Fastify({
    logger: { level: 'warn' },
    logController: new LogController({ disableRequestLogging: true }),
    ajv: { customOptions: { removeAdditional: false } }
  })
  app.addHook('onClose', () => pool.end())
  await app.register(fastifyJwt, { secret: jwtSecret, verify: { cache: true, algorithms: ['HS256'] } })
  await app.register(rateLimit, { global: false, cache: 10_000 })
  const countRequest = app.createRateLimit({
    max: 1_000_000_000,
    timeWindow: 60_000,
    keyGenerator: (request: FastifyRequest) => request.user.tenant_id
  })

  const authenticate = (request: FastifyRequest, _reply: FastifyReply, done: (error?: Error) => void): void => {
    const header = request.headers.authorization
    if (header === undefined || !header.startsWith('Bearer ')) {
      done(new HttpError(401, 'No authorization token provided', 'TENANTRY_TOKEN_MISSING'))
      return
    }
    try {
      request.user = app.jwt.verify(header.slice(7))
      done()
    } catch {
      done(new HttpError(401, 'Invalid or expired token', 'TENANTRY_TOKEN_INVALID'))
    }
  }

  const limitRate = async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    const state = await countRequest(request)
    if (state.isAllowed) return
    reply.header('x-ratelimit-limit', state.max)
    reply.header('x-ratelimit-remaining', state.remaining)
    reply.header('x-ratelimit-reset', Math.ceil((Date.now() + state.ttl) / 1000))
    if (state.isExceeded) {
      reply.header('retry-after', state.ttlInSeconds)
      throw new HttpError(429, 'Rate limit exceeded', 'TENANTRY_RATE_LIMITED')
    }
  }

  app.setErrorHandler((error: FastifyError | HttpError, request, reply) => {
    const status = error.statusCode ?? 500
    if (status >= 500) request.log.error(error)
    const { message, code, title } = error instanceof HttpError ? error : HttpError.from(error, status)
    reply.code(status).send({ error: title, message, code, requestId: request.id })
  })
  app.setNotFoundHandler(() => {
    throw new HttpError(404, 'Resource not found', 'TENANTRY_NOT_FOUND')
  })

  const onRequest = [authenticate, limitRate]

  app.get<{ Params: { id: string } }>('/articles/:id', { onRequest, schema: schemas.read }, async request => {
    const { rows } = await pool.query({ ...statements.read, values: [request.user.tenant_id, request.params.id] })
    if (rows.length === 0) throw new HttpError(404, 'Resource not found', 'TENANTRY_NOT_FOUND')
    return rows[0]
  })

  app.get<{ Querystring: { limit: number, offset: number } }>('/articles', { onRequest, schema: schemas.list }, async request => {
    const tenant = request.user.tenant_id
    const limit = Math.min(request.query.limit, 100)
    const { offset } = request.query
    const [page, count] = await Promise.all([
      pool.query({ ...statements.list, values: [tenant, limit, offset] }),
      pool.query({ ...statements.count, values: [tenant] })
    ])
    return { data: page.rows, pagination: { limit, offset, total: count.rows[0].total } }
  })

  app.post<{ Body: ArticleInput }>('/articles', { onRequest, schema: schemas.insert }, async (request, reply) => {
    const { title, body, status = 'draft', views = 0 } = request.body
    const { rows } = await pool.query({ ...statements.insert, values: [request.user.tenant_id, title, body, status, views] })
    reply.code(201)
    return rows[0]
  })

  app.post<{ Params: { id: string } }>('/articles/:id/touch', { onRequest, schema: schemas.touch }, async request => {
    const tenant = request.user.tenant_id
    const { rows: [article] } = await pool.query({ ...statements.read, values: [tenant, request.params.id] })
    if (article === undefined) throw new HttpError(404, 'Resource not found', 'TENANTRY_NOT_FOUND')
    const { rows: [touched] } = await pool.query({ ...statements.touch, values: [tenant, article.id, article.views] })
    if (touched === undefined) throw new HttpError(404, 'Resource not found', 'TENANTRY_NOT_FOUND')
    const { rows: [read] } = await pool.query({ ...statements.read, values: [tenant, touched.id] })
    if (read === undefined) throw new HttpError(404, 'Resource not found', 'TENANTRY_NOT_FOUND')
    return { workflowId: randomUUID(), status: 'completed', result: read }
  })

  app.get<{ Params: { name: string }, Querystring: { page: number } }>(
    '/greetings/:name',
    { onRequest, schema: schemas.greet },
    async request => {
      const { user, params, query } = request
      return { message: `Hello ${params.name}`, tenant: user.tenant_id, caller: { id: user.sub, role: user.role }, page: query.page }
    }
  )

  return app
})
