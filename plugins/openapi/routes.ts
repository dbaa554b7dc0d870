/** `GET /doc` and the pages under `/ui`. */
import Fastify, { type FastifyInstance, type RouteHandlerMethod } from 'fastify'
import { failure } from '../../lib/errors.js'
import { notModified, tagOf, withTag } from '../../lib/http/caching.js'
import { errorResponses } from '../../lib/http/error-schemas.js'
import type { OpenApi, OpenApiService } from './service.js'

const tags = ['System']

const documentSchema = {
  tags,
  summary: 'Retrieve this OpenAPI document',
  description: "The OpenAPI document of this server, including the routes of the caller's tenant.",
  response: {
    200: { type: 'object', description: 'The OpenAPI document.', additionalProperties: true },
    304: notModified,
    ...errorResponses(404, 500, 503)
  }
}

const pagesSchema = {
  tags,
  summary: 'Show the interactive documentation',
  produces: ['text/html'],
  response: { 200: { type: 'string', description: 'The HTML page.' } }
}

export async function openApiRoutes (app: FastifyInstance, service: OpenApiService, ui: boolean): Promise<void> {
  const documentTag = createTags()
  app.get('/doc', { config: { access: 'open' }, schema: documentSchema }, async (request, reply) => {
    const body = await service.textFor(request)
    reply.header('content-type', 'application/json; charset=utf-8').header('cache-control', 'private, no-cache')
    return withTag(request, reply, documentTag(body), body)
  })
  // If an app registers @fastify/swagger-ui itself, its pages show the document.
  if (!ui || app.hasDecorator('swaggerCSP')) return
  pageRoutes(app, service)
  // The routes of the pages are hidden.
  service.add({ methods: ['GET'], url: `${app.prefix}/ui`, config: { access: 'public' }, schema: pagesSchema })
}

/** The tags of documents, each hashed once, since they may have megabytes. */
function createTags (): (body: string | Buffer) => string {
  const tags = new WeakMap<Buffer, string>()
  let last = { text: '', tag: '' }
  return (body) => {
    if (typeof body === 'string') {
      if (last.text !== body) last = { text: body, tag: tagOf(body) }
      return last.tag
    }
    const tag = tags.get(body) ?? tagOf(body)
    tags.set(body, tag)
    return tag
  }
}

// The pages under `/ui`, of @fastify/swagger-ui. It serves many files and loads many modules, so that the first request creates the app
// that serves them.

/** Headers of a response that belong to its connection. */
const ofConnection = ['connection', 'date', 'keep-alive', 'transfer-encoding']

/** Adds the routes to the context. The pages load `/ui/json`, which returns the text unchanged. */
function pageRoutes (app: FastifyInstance, service: OpenApi): void {
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
  const [{ default: fastifySwagger }, { default: swaggerUi }] = await Promise.all([
    import('@fastify/swagger'),
    import('@fastify/swagger-ui')
  ])
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
