/**
 * `GET /doc`, the OpenAPI 3.1 document of every route that is registered after this plugin and, for callers of a tenant,
 * of that tenant's own routes; and `/ui`, which shows the server's.
 * A service plugin (fp): it decorates `app.openapi`; its own routes stand in a context of their own.
 */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { DocumentedRoute } from './documentation.js'
import swaggerUi from '@fastify/swagger-ui'
import fp from 'fastify-plugin'
import { LRUCache } from 'lru-cache'
import { createPace } from '../../lib/pace.js'
import { version } from '../../lib/version.js'
import conventions, { errorResponses } from '../conventions/index.js'
import { composeDocument, type ComposedDocument, type DocumentInfo } from './document.js'

const maxExtended = 100 // documents with further routes that are kept: those asked for last
const maxBytes = 20_000_000 // of them together

declare module 'fastify' {
  interface FastifyInstance {
    openapi: OpenApi
  }
}

/** Operations that only some callers see: those of a tenant's own routes. */
export interface FurtherRoutes {
  /** The same for the same routes, and for no others. */
  readonly key: string
  /** Asked one by one, in turns; what takes long is done when a route is taken. */
  routes (): Iterable<DocumentedRoute>
}

/** What `app.openapi` is. */
export interface OpenApi {
  /** The document as JSON text, composed when it is first asked for after a change. */
  text (): string
  /** What `GET /doc` adds for a caller; null adds nothing. Set once, by the plugin that serves such routes. */
  further: ((request: FastifyRequest) => FurtherRoutes | null | Promise<FurtherRoutes | null>) | null
  /** The documentation of a route has changed: the document is composed anew when it is asked for. */
  invalidate (): void
}

export interface OpenApiOptions extends DocumentInfo {
  /** Serve the pages under `/ui`. Default: true. */
  readonly ui?: boolean
}

export async function openapi (app: FastifyInstance, { title = 'API', version: apiVersion = version, description, ui = true }: OpenApiOptions): Promise<void> {
  const routes: DocumentedRoute[] = []
  const contexts = new Set([app])
  const pace = createPace()
  let composed: ComposedDocument | null = null

  /** That of the server's own routes, made when it is first asked for. */
  function serverDocument (): ComposedDocument {
    composed ??= composeDocument({
      info: { title, version: apiVersion, ...(description !== undefined && { description }) },
      routes,
      schemas: Object.assign({}, ...Array.from(contexts, (context) => context.getSchemas())),
      tenancy: app.hasDecorator('tenancy')
    })
    return composed
  }

  // Whoever asks while one is composed waits for the same; one that is dropped meanwhile still reaches them, and nobody later.
  const extended = new LRUCache<string, Buffer, FurtherRoutes>({
    max: maxExtended,
    maxSize: maxBytes,
    sizeCalculation: ({ length }) => length,
    ignoreFetchAbort: true,
    fetchMethod: async (_key, _stale, { context }) => Buffer.from(await serverDocument().extended(context.routes()))
  })

  const service: OpenApi = {
    text: () => serverDocument().text,
    further: null,
    invalidate () {
      composed = null
      extended.clear()
    }
  }
  app.decorate('openapi', service)

  async function documentFor (request: FastifyRequest): Promise<string | Buffer> {
    const further = await service.further?.(request) ?? null
    if (further === null) return service.text()
    const document = await extended.forceFetch(further.key, { context: further })
    // Whoever waited for the same is answered in turns as well: each answer may be megabytes.
    await pace.rest()
    return document
  }

  app.addHook('onRegister', (context) => { contexts.add(context) })
  app.addHook('onRoute', ({ method, url, config, schema }) => {
    const methods = [method].flat().filter((name) => name !== 'HEAD' && name !== 'OPTIONS')
    if (methods.length === 0) return
    routes.push({ methods, url, config, schema })
    service.invalidate()
  })

  await app.register(async (own) => {
    await own.register(conventions)
    own.get('/doc', { config: { access: 'open' }, schema: documentSchema }, async (request, reply) => {
      reply.header('content-type', 'application/json; charset=utf-8')
      return documentFor(request)
    })
    if (!ui) return
    await own.register(pages, service)
    // Its own routes say nothing of themselves.
    routes.push({ methods: ['GET'], url: `${app.prefix}/ui`, config: { access: 'public' }, schema: pagesSchema })
  })
}

const tags = ['System']

const documentSchema = {
  tags,
  summary: 'This document',
  description: "With the routes of the caller's tenant.",
  response: { 200: { type: 'object', description: 'OpenAPI 3.1.', additionalProperties: true }, ...errorResponses(404, 500, 503) }
}

const pagesSchema = { tags, summary: "The server's routes as pages to read and try", produces: ['text/html'], response: { 200: { type: 'string', description: 'A page.' } } }

/** Swagger's pages. They ask for `/ui/json`, which is answered with the text as it is. */
async function pages (app: FastifyInstance, { text }: OpenApi): Promise<void> {
  await app.register(swagger, { text })
  await app.register(swaggerUi, {
    routePrefix: '/ui',
    staticCSP: true,
    // It would send a server that is reached over plain HTTP, in a private network say, to HTTPS for its own scripts.
    transformStaticCSP: (header) => header.replace('upgrade-insecure-requests;', '').trim(),
    uiConfig: { docExpansion: 'list', persistAuthorization: true },
    uiHooks: {
      onRequest (request, reply, done) {
        if (request.routeOptions.url === '/ui/json') reply.header('content-type', 'application/json; charset=utf-8').send(text())
        else done()
      }
    }
  })
}

/** Stands in for @fastify/swagger, of which the pages need one decorator. */
const swagger = fp(async (app: FastifyInstance, { text }: Pick<OpenApi, 'text'>) => {
  app.decorate('swagger', () => JSON.parse(text()))
}, { name: '@fastify/swagger', fastify: '5.x' })

export default fp(openapi, { name: 'tenantry-openapi', fastify: '5.x' })
