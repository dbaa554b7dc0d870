/** The pages under `/ui`, of @fastify/swagger-ui. It loads many modules, so that the first request creates the app that serves them. */
import { readdir } from 'node:fs/promises'
import Fastify, { type FastifyInstance, type LightMyRequestResponse, type RouteHandlerMethod } from 'fastify'
import { failure } from '../../lib/errors.js'
import { withTag } from '../../lib/http/caching.js'
import { prefixOf } from '../../lib/http/prefix.js'
import type { OpenApi } from './service.js'

const pagesSchema = {
  tags: ['System'],
  summary: 'Show the interactive documentation',
  produces: ['text/html'],
  response: { 200: { type: 'string', description: 'The HTML page.' } }
}

/** Each address has its own count. A page needs six requests. */
const usualRateLimitRule = { max: 100, windowMs: 60_000 }

/** Headers that belong to the connection of the response, or offer parts of a file. */
const omitted = ['connection', 'date', 'keep-alive', 'transfer-encoding', 'accept-ranges']

type Page = Pick<LightMyRequestResponse, 'statusCode' | 'headers' | 'rawPayload'>

interface Pages {
  readonly app: FastifyInstance
  /** The responses with static files, by path. */
  readonly files: ReadonlyMap<string, Page>
}

/** Adds the routes to the context. The pages load `/ui/json`, which returns the text unchanged. */
export function pageRoutes (app: FastifyInstance, service: OpenApi): void {
  let opened: Promise<Pages> | undefined
  app.addHook('onClose', async () => await (await opened?.catch(() => undefined))?.app.close())

  const serve: RouteHandlerMethod = async (request, reply) => {
    opened ??= openPages(app, service).catch((error: unknown) => {
      // The next request tries again.
      opened = undefined
      throw error
    })
    const { app: pages, files } = await opened
    const { url } = request
    const [path = ''] = url.split('?', 1)
    // Without the headers of the request: the pages have no ranges or preconditions of their own.
    const { statusCode, headers: own, rawPayload } = files.get(path) ?? await pages.inject(url)
    if (statusCode >= 400) throw failure(statusCode < 500 ? 'notFound' : 'internal')
    for (const [name, value] of Object.entries(own)) if (!omitted.includes(name)) reply.header(name, value)
    reply.code(statusCode)
    const body = rawPayload.length === 0 ? undefined : rawPayload
    return own.etag === undefined ? reply.send(body) : withTag(request, reply, own.etag, body)
  }
  app.get('/ui', { config: { access: 'public', usualRateLimitRule, openapi: pagesSchema }, schema: { hide: true } }, serve)
  app.get('/ui/*', { config: { access: 'public', usualRateLimitRule, openapi: false }, schema: { hide: true } }, serve)
}

async function openPages (app: FastifyInstance, { text }: OpenApi): Promise<Pages> {
  const [{ default: fastifySwagger }, { default: swaggerUi }] = await Promise.all([
    import('@fastify/swagger'),
    import('@fastify/swagger-ui')
  ])
  const routePrefix = `${prefixOf(app)}/ui`
  const pages = Fastify()
  // @fastify/swagger-ui requires this plugin. The document is that of the app.
  await pages.register(fastifySwagger, { decorator: 'ownSwagger' })
  pages.decorate('swagger', app.swagger)
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
  const names = await readdir(new URL('static/', import.meta.resolve('@fastify/swagger-ui')))
  const files = names.map(async (name): Promise<[string, Page]> => {
    const { statusCode, headers, rawPayload } = await pages.inject(`${routePrefix}/static/${name}`)
    return [`${routePrefix}/static/${name}`, { statusCode, headers, rawPayload }]
  })
  return { app: pages, files: new Map(await Promise.all(files)) }
}
