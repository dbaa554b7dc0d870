/** The endpoints of resumable uploads. Bodies, headers and statuses follow the tus protocol. */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { prefixOf } from '../../lib/http/prefix.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { IdParams } from '../../lib/http/schemas.js'
import { requirePermissions } from '../auth/access.js'
import { renew } from '../auth/renewal.js'
import { errorResponses } from '../conventions/index.js'
import { requiredTenant } from '../tenancy/required.js'
import { untilFailure } from './body.js'
import { describe, publicOf } from './input.js'
import type { ResumableCall } from './resumable.js'
import type { FilesService } from './service.js'
import { uploaderOf } from './uploads.js'

const tags = ['Files']
const config = {
  access: 'user',
  streamsBody: 'any',
  exposedHeaders: 'tus-resumable, upload-expires, upload-length, upload-metadata, upload-offset'
} as const
const None = Type.Null({ description: 'The response has no body, only the headers of the protocol.' })
const refusals = [400, 401, 403, 404, 409, 412, 429, 500, 503] as const
const protocol = 'Implements the tus protocol 1.0 with its extensions creation, creation-with-upload, termination and expiration.'

export function resumableRoutes (app: FastifyGroup, { buckets, reading, resumable, uploads }: FilesService): void {
  const prefix = prefixOf(app)
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, payload, done) => done(null, payload))

  app.post('/files/resumable', {
    config: { ...config, location: true },
    schema: {
      tags,
      summary: 'Create a resumable upload',
      description:
        `${protocol} \`Upload-Metadata\` may have \`filename\` (required), \`filetype\`, \`entityType\`, \`entityId\`, \`public\` and \`bucket\`. An upload that is not complete after one day is removed.`,
      response: { 201: None, ...errorResponses(...refusals, 'planLimit', 408, 413, 415, 507) }
    }
  }, async (request, reply) => await handle(request, reply, randomUUID()))

  app.head('/files/resumable/:id', {
    config,
    schema: {
      tags,
      summary: 'Retrieve the offset of a resumable upload',
      params: IdParams,
      response: { 200: None, ...errorResponses(...refusals, 413, 415, 507) }
    }
  }, async (request, reply) => await handle(request, reply, request.params.id))

  app.patch('/files/resumable/:id', {
    config,
    schema: {
      tags,
      summary: 'Send bytes of a resumable upload',
      description: 'The request that completes the upload creates the file. The file has the id of the upload.',
      params: IdParams,
      response: { 204: None, ...errorResponses(...refusals, 408, 413, 415, 507) }
    }
  }, async (request, reply) => await handle(request, reply, request.params.id))

  app.delete('/files/resumable/:id', {
    config,
    schema: { tags, summary: 'Cancel a resumable upload', params: IdParams, response: { 204: None, ...errorResponses(...refusals) } }
  }, async (request, reply) => await handle(request, reply, request.params.id))

  for (const url of ['/files/resumable', '/files/resumable/:id']) {
    app.options(url, { config: { access: 'public' }, schema: { hide: true } }, (request, reply) => {
      // A CORS preflight. The plugin cors has checked the origin.
      if (reply.hasHeader('access-control-allow-origin')) {
        reply.header('access-control-allow-methods', 'DELETE, HEAD, PATCH, POST')
          .header('access-control-allow-headers', request.headers['access-control-request-headers'] ?? '')
      }
      return reply.code(204).headers({
        'tus-resumable': '1.0.0',
        'tus-version': '1.0.0',
        'tus-extension': 'creation,creation-with-upload,termination,expiration'
      }).send()
    })
  }

  async function handle (request: FastifyRequest, reply: FastifyReply, given: string): Promise<FastifyReply> {
    // The id is a part of the objects' keys.
    const id = given.toLowerCase()
    reply.header('tus-resumable', '1.0.0')
    const call: ResumableCall = {
      tenant: requiredTenant(request),
      by: uploaderOf(request),
      id,
      path: `${prefix}/files/resumable/${id}`,
      renew: () => renew(request, reply),
      async describe ({ filename: name, bucket, entityType, entityId, public: isPublic }) {
        const fields = { name, bucket, entityType, entityId, public: publicOf(isPublic ?? undefined) }
        const described = describe(fields, buckets, '/body/filename')
        await requirePermissions(request, described.bucket.permissions)
        return described
      }
    }
    const answer = () =>
      reading(request.raw, async (slow) => {
        const stored = resumable(webRequest(request, slow), call)
        // The bytes of a body that ends early are kept, and stored before the response.
        return await Promise.race([stored, slow]).finally(() => stored.catch(() => {}))
      })
    const response = withBody.has(request.method) ? await uploads.inPlace(call.tenant.id, answer) : await answer()
    for (const [name, value] of response.headers) {
      if (!name.startsWith('access-control-') && name !== 'content-length') reply.header(name, value)
    }
    return reply.code(response.status).send()
  }
}

/** The package gets the id and the path of an upload from its call. */
const address = 'http://localhost/'
const withBody: ReadonlySet<string> = new Set(['PATCH', 'POST'])

/** The request in the form that the tus package needs. */
function webRequest ({ raw, method, headers: given }: FastifyRequest, slow: Promise<never>): Request {
  const headers = new Headers()
  for (const [name, value] of Object.entries(given)) if (typeof value === 'string') headers.set(name, value)
  if (!withBody.has(method)) return new Request(address, { method, headers })
  return new Request(address, { method, headers, body: Readable.toWeb(bodyOf(raw, slow)), duplex: 'half' })
}

/** Ends the stream at a lost connection, so that the bytes before it are kept. */
function bodyOf (raw: IncomingMessage, slow: Promise<never>): Readable {
  const bytes = untilFailure(raw).on('error', () => {})
  slow.catch((error: Error) => {
    bytes.destroy(error)
  })
  return bytes
}
