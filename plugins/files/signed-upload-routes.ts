/** The endpoints of signed uploads: a caller announces a file, anyone with the URL sends its content, and the caller confirms it. */
import { callerErrors } from '../../lib/http/error-schemas.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { Success } from '../../lib/http/schemas.js'
import { tenantRef } from '../../lib/identity/tenant-ref.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import { requirePermissions } from '../auth/access.js'
import { errorResponses } from '../conventions/index.js'
import { requiredTenant, tenantOf } from '../tenancy/required.js'
import { bytesOf, lengthOf } from './body.js'
import type { Bucket } from './buckets.js'
import { describe } from './input.js'
import { Announcement, ContentQuery, File, FileParams, SignedUpload } from './schemas.js'
import type { FilesService } from './service.js'
import { uploaderOf } from './uploads.js'

const tags = ['Files']
const config = { access: 'user' } as const

export async function signedUploadRoutes (group: FastifyGroup, { buckets, reading, shown, signed }: FilesService): Promise<void> {
  // In a child context, since its parser of all types would apply to other routes too.
  await group.register(async (app: FastifyGroup) => {
    app.removeAllContentTypeParsers()
    app.addContentTypeParser('*', (_request, payload, done) => done(null, payload))
    const description = 'Send the bytes to the URL returned by `POST /files/presign`.'
    const schema = { tags, summary: 'Send the content of an announced file', description, params: FileParams, querystring: ContentQuery }
    const body = { type: 'string', format: 'binary' }
    app.put('/files/:fileId/content', {
      config: {
        access: 'public',
        streamsBody: 'any',
        openapi: {
          ...schema,
          consumes: ['application/octet-stream'],
          body,
          response: { 200: Success },
          errors: [403, 408, 409, 429, 503, 507]
        }
      },
      schema: { ...schema, response: { 200: Success, ...errorResponses(400, 403, 408, 409, 413, 415, 429, 500, 503, 507) } }
    }, async (request) => {
      const { tenant, ...grant } = request.query
      const { raw, params: { fileId } } = request
      await reading(raw, (slow) => signed.receive(tenantRef(tenant), fileId, grant, () => bytesOf(raw, slow), lengthOf(raw)))
      return { success: true }
    })
  })

  group.post('/files/presign', {
    config: { ...config, idempotency: 'encrypted' },
    schema: {
      tags,
      summary: 'Announce a file and create an upload URL',
      description: 'The size of the file counts as used storage immediately. It is released if the file is not confirmed in time.',
      body: Announcement,
      response: { 201: SignedUpload, ...callerErrors('planLimit', 413, 415) }
    }
  }, async (request, reply) => {
    const { contentType, size, metadata, ...details } = request.body
    const fields = { ...details, metadata: metadata === undefined ? undefined : stringifyJson(metadata) }
    const described = describe(fields, buckets, '/body/name')
    await requirePermissions(request, described.bucket.permissions)
    const announced = await signed.announce(requiredTenant(request), described, { contentType, size }, uploaderOf(request))
    return reply.code(201).send(announced)
  })

  group.post('/files/:fileId/confirm', {
    config,
    schema: {
      tags,
      summary: 'Confirm an announced file',
      description:
        'You can repeat this request. Responds with 409 until the content has been uploaded. If the store fails while the server copies the content, the response can stay 409: announce the file again.',
      params: FileParams,
      response: { 200: File, ...callerErrors(409, 415) }
    }
  }, async (request) => {
    const permit = ({ permissions }: Bucket) => requirePermissions(request, permissions)
    return shown(await signed.confirm(tenantOf(request), request.params.fileId, uploaderOf(request), permit))
  })
}
