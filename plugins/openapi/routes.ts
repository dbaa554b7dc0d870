/** `GET /doc` and the pages under `/ui`. */
import type { FastifyInstance } from 'fastify'
import { notModified, tagOf, withTag } from '../../lib/http/caching.js'
import { errorResponses } from '../../lib/http/error-schemas.js'
import { pageRoutes } from './pages.js'
import type { OpenApiService } from './service.js'

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
