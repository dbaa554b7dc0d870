/** The endpoints of files. */
import type { FastifyRequest } from 'fastify'
import { failure } from '../../lib/errors.js'
import { callerErrors } from '../../lib/http/error-schemas.js'
import { pageOf } from '../../lib/http/page.js'
import { prefixOf } from '../../lib/http/prefix.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { Success } from '../../lib/http/schemas.js'
import { callerOf, hasPermission, hasPermissions, insufficientPermissions, requirePermissions } from '../auth/access.js'
import { actorOf } from '../auth/actor.js'
import { errorResponses } from '../conventions/index.js'
import { tenantOf } from '../tenancy/required.js'
import { downloadRoutes, parseKey } from './download.js'
import { receiveForm } from './form.js'
import { acceptForms, formOf, leaveOtherBodies } from './multipart.js'
import { resumableRoutes } from './resumable-routes.js'
import { EntityParams, File, FileList, FileParams, KeyParams, ListQuery, SignedUrl, SignQuery, UploadForm } from './schemas.js'
import type { FilesService } from './service.js'
import { signedUploadRoutes } from './signed-upload-routes.js'
import type { StoredFile } from './types.js'

const tags = ['Files']
const config = { access: 'user' } as const
const uploadErrors = [400, 401, 'planLimit', 403, 404, 408, 413, 415, 429, 500, 503, 507] as const

export async function fileRoutes (group: FastifyGroup, service: FilesService): Promise<void> {
  const { buckets, removal } = service
  const bodyOf = service.shown

  /** Throws `notFound` for a file that the caller may not know of. Throws `forbidden` for a file in a bucket that it may not use. */
  async function readable (request: FastifyRequest, id: string): Promise<StoredFile> {
    const file = await service.store.findStored(tenantOf(request), id)
    if (file?.scan !== undefined && callerOf(request).role !== 'admin') throw failure('notFound')
    const bucket = file === null ? undefined : buckets.find(file.bucket)
    if (file === null || bucket === undefined) throw failure('notFound')
    await requirePermissions(request, bucket.permissions)
    return file
  }

  // In a child context, since the parser of forms would apply to other routes too.
  await group.register(async (app: FastifyGroup) => uploadRoute(app, service))
  await group.register(async (app) => resumableRoutes(app, service))
  await signedUploadRoutes(group, service)

  group.get('/files/:fileId', {
    config,
    schema: { tags, summary: 'Retrieve a file', params: FileParams, response: { 200: File, ...callerErrors() } }
  }, async (request) => bodyOf(await readable(request, request.params.fileId)))

  group.delete('/files/:fileId', {
    config,
    schema: {
      tags,
      summary: 'Delete a file',
      description: 'Requires the uploader, an administrator of the tenant, or the permission `files:delete`.',
      params: FileParams,
      response: { 200: Success, ...callerErrors() }
    }
  }, async (request) => {
    const { fileId } = request.params
    const { createdBy } = await readable(request, fileId)
    const { role, sub } = callerOf(request)
    if (role !== 'admin' && sub !== createdBy && !await hasPermission(request, 'files:delete')) {
      throw insufficientPermissions('the uploader, the role "admin" or the permission "files:delete"')
    }
    if (!await removal.delete(tenantOf(request), fileId, { actor: actorOf(request) })) throw failure('notFound')
    return { success: true }
  })

  group.get('/files/entity/:entityType/:entityId', {
    config,
    schema: {
      tags,
      summary: 'List files of an entity, oldest first',
      description: 'The list omits files in buckets that the caller cannot access.',
      params: EntityParams,
      querystring: ListQuery,
      response: { 200: FileList, ...callerErrors() }
    }
  }, async (request) => {
    const { entityType: type, entityId: id } = request.params
    const page = pageOf(request)
    const usable = []
    for (const { name, permissions } of buckets.all) if (await hasPermissions(request, permissions)) usable.push(name)
    const { data, total } = await service.store.list(tenantOf(request), { type, id }, usable, page, callerOf(request).role === 'admin')
    return { data: data.map(bodyOf), pagination: { ...page, total } }
  })

  group.get('/files/signed-url/:bucket/*', {
    config,
    schema: {
      tags,
      summary: 'Create a signed URL for a download',
      params: KeyParams,
      querystring: SignQuery,
      response: { 200: SignedUrl, ...callerErrors(409) }
    }
  }, async (request) => {
    const { bucket, '*': key } = request.params
    const { tenant, id } = parseKey(key)
    if (tenant !== tenantOf(request)) throw failure('notFound')
    const file = await readable(request, id)
    if (file.bucket !== bucket) throw failure('notFound')
    return await service.signDownload(file, request.query.expiresIn)
  })

  downloadRoutes(group, service)
}

async function uploadRoute (app: FastifyGroup, service: FilesService): Promise<void> {
  const prefix = prefixOf(app)
  await acceptForms(app)
  leaveOtherBodies(app)
  const description = 'The size of the file is limited by `files.maxFileSizeMB`, its bucket and the plan; the smallest limit applies.'
  const schema = { tags, summary: 'Upload a file', description }
  app.post('/files/upload', {
    config: {
      ...config,
      streamsBody: 'form',
      location: true,
      openapi: { ...schema, consumes: ['multipart/form-data'], body: UploadForm, response: { 201: File }, errors: uploadErrors }
    },
    schema: { ...schema, response: { 201: File, ...errorResponses(...uploadErrors) } }
  }, async (request, reply) => {
    const tenant = tenantOf(request)
    const form = formOf(request)
    if (form === undefined) throw failure('mediaTypeUnsupported', { message: 'Send the file as multipart/form-data' })
    const receive = (slow: Promise<never>) => receiveForm(request, reply, form, service, slow)
    const file = await service.uploads.inPlace(tenant, () => service.reading(request.raw, receive))
    return reply.code(201).header('location', `${prefix}/files/${file.id}`).send(service.shown(file))
  })
}
