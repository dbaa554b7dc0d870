/**
 * The pages under `/ui`, of @fastify/swagger-ui. It serves many files and loads many modules, so that the first request creates the app
 * that serves them.
 */
import type { FastifyInstance, RouteHandlerMethod } from 'fastify'
import Fastify from 'fastify'
import type { OpenApi } from './service.js'
import { failure } from '../../lib/errors.js'

/** Headers of a response that belong to its connection. */
const ofConnection = ['connection', 'date', 'keep-alive', 'transfer-encoding']

/** Adds the routes to the context. The pages load `/ui/json`, which returns the text unchanged. */
export function pageRoutes (app: FastifyInstance, service: OpenApi): void {
  let opened: Promise<FastifyInstance> | undefined
  app.addHook('onClose', async () => await (await opened)?.close())

  const serve: RouteHandlerMethod = async (request, reply) => {
    opened ??= openPages(app, service)
    const { url, headers } = request
    const { statusCode, headers: own, rawPayload } = await (await opened).inject({ url, headers })
    if (statusCode === 404) throw failure('notFound')
    for (const [name, value] of Object.entries(own)) if (!ofConnection.includes(name)) reply.header(name, value)
    return reply.code(statusCode).send(rawPayload.length === 0 ? undefined : rawPayload)
  }
  for (const url of ['/ui', '/ui/*']) app.get(url, { schema: { hide: true } }, serve)
}

async function openPages ({ prefix, swagger }: FastifyInstance, { text }: OpenApi): Promise<FastifyInstance> {
  const [{ default: fastifySwagger }, { default: swaggerUi }] = await Promise.all([import('@fastify/swagger'), import('@fastify/swagger-ui')])
  const routePrefix = `${prefix}/ui`
  const pages = Fastify()
  // @fastify/swagger-ui requires this plugin. The document is that of the app.
  await pages.register(fastifySwagger, { decorator: 'ownSwagger' })
  pages.decorate('swagger', swagger)
  await pages.register(swaggerUi, {
    routePrefix,
    staticCSP: true,
    // The directive would make browsers load scripts by HTTPS, which a server in a private network may not have.
    transformStaticCSP: (header) => header.replace('upgrade-insecure-requests;', '').trim(),
    uiConfig: { docExpansion: 'list', persistAuthorization: true },
    uiHooks: {
      onRequest (request, reply, done) {
        if (request.routeOptions.url === `${routePrefix}/json`) {
          reply.header('content-type', 'application/json; charset=utf-8').send(text())
        } else done()
      }
    }
  })
  return pages
}
