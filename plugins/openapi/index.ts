/**
 * `GET /doc`, the OpenAPI 3.1 document of every route that is registered after this plugin, and `/ui`, which shows it.
 * A service plugin (fp): it decorates `app.openapi`; its own routes stand in a context of their own.
 */
import type { FastifyInstance } from 'fastify'
import type { DocumentedRoute } from './documentation.js'
import swaggerUi from '@fastify/swagger-ui'
import fp from 'fastify-plugin'
import { version } from '../../lib/version.js'
import conventions, { errorSchema, errorSchemaId } from '../conventions.js'
import { composeDocument, type DocumentInfo } from './document.js'

declare module 'fastify' {
  interface FastifyInstance {
    openapi: OpenApi
  }
}

/** What `app.openapi` is. */
export interface OpenApi {
  /** The document as JSON text, composed when it is first asked for after a change. */
  text (): string
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
  let text: string | null = null

  const service: OpenApi = {
    text () {
      text ??= JSON.stringify(composeDocument({
        info: { title, version: apiVersion, ...(description !== undefined && { description }) },
        routes,
        schemas: Object.assign({ [errorSchemaId]: errorSchema }, ...Array.from(contexts, (context) => context.getSchemas())),
        componentNames: { [errorSchemaId]: 'Error' },
        tenancy: app.hasDecorator('tenancy')
      }))
      return text
    },
    invalidate () { text = null }
  }
  app.decorate('openapi', service)

  app.addHook('onRegister', (context) => { contexts.add(context) })
  app.addHook('onRoute', ({ method, url, config, schema }) => {
    const methods = [method].flat().filter((name) => name !== 'HEAD' && name !== 'OPTIONS')
    if (methods.length === 0) return
    routes.push({ methods, url, config, schema })
    service.invalidate()
  })

  await app.register(async (own) => {
    await own.register(conventions)
    own.get('/doc', { config: { access: 'public', openapi: false } }, async (_request, reply) => {
      reply.header('content-type', 'application/json; charset=utf-8')
      return service.text()
    })
    if (ui) await own.register(pages, service)
  })
}

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
