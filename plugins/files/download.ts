/** Downloads: a file's bytes, all or a range. */
import { Socket } from 'node:net'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Static } from 'typebox'
import { failure } from '../../lib/errors.js'
import type { ByteRange } from '../../lib/files/store.js'
import { isKnownToCaller } from '../../lib/http/caching.js'
import { limitWriting } from '../../lib/http/caller-left.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { type Owner, tenantRef } from '../../lib/identity/tenant-ref.js'
import { isPlatformAdmin, requirePermissions, tokenMissing } from '../auth/access.js'
import { errorResponses } from '../conventions/index.js'
import { requireActive } from '../tenancy/tenant.js'
import { disposition, headerOf, inlineTypes } from './content-type.js'
import { DownloadQuery, KeyParams } from './schemas.js'
import type { FilesService } from './service.js'
import type { StoredFile } from './types.js'

const publicSeconds = 300 // s for caches to keep a public file, which may be deleted meanwhile
const unreadMs = 30_000 // ms after which a connection that accepts no bytes is closed

type Download = FastifyRequest & { readonly params: Static<typeof KeyParams>, readonly query: Static<typeof DownloadQuery> }

const key = /^([A-Za-z0-9_-]{1,64})\/([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$/

/** The tenant and the id in the key of a file; throws `notFound` for another text. */
export function parseKey (text: string): { readonly tenant: Owner, readonly id: string } {
  const [, tenant, id] = key.exec(text) ?? []
  if (tenant === undefined || id === undefined) throw failure('notFound')
  return { tenant: tenantRef(tenant), id }
}

export function downloadRoutes (app: FastifyGroup, service: FilesService): void {
  const schema = {
    tags: ['Files'],
    summary: 'Download a file',
    description:
      'Public files and signed URLs need no token. The response has an `ETag`. A request for a single range returns 206. With `width`, `height`, `fit`, `format` or `quality`, an image is returned in another size or format.',
    params: KeyParams,
    querystring: DownloadQuery
  }
  const options = {
    config: {
      access: 'open',
      countsUnauthenticated: true,
      openapi: {
        ...schema,
        produces: ['application/octet-stream'],
        response: {
          200: { type: 'string', format: 'binary', description: 'The content of the file.' },
          206: { type: 'string', format: 'binary', description: 'The requested range of the file.' },
          304: { type: 'null', description: "The file has not changed since the caller's version." }
        },
        errors: [400, 404, 409, 416, 429, 503]
      }
    },
    schema: { ...schema, response: errorResponses(400, 401, 403, 404, 409, 416, 429, 500, 503) }
  } as const
  const respond = async (request: Download, reply: FastifyReply) => await download(request, reply, service)
  app.get('/files/download/:bucket/*', { ...options, exposeHeadRoute: false }, respond)
  app.head('/files/download/:bucket/*', options, respond)
}

async function download (request: Download, reply: FastifyReply, service: FilesService): Promise<FastifyReply> {
  const [named, account] = [request.tenant?.id, service.accountOf(request)]
  const file = await permitted(request, service)
  const isQuarantined = file.scan !== undefined
  const isPublic = !isQuarantined && service.buckets.find(file.bucket)?.isPublic === true
  // Callers of other tenants can read public files too, and use signed URLs.
  const isOfOther = named !== file.tenant && !(request.auth !== null && isPlatformAdmin(request.auth))
  const isStranger = isOfOther || service.addressWithoutToken(request) !== undefined
  const image = await service.transforms.of(file, request.query, isStranger ? account : undefined)
  const { contentType, size, sha256 } = image ?? file
  const isInline = !isQuarantined && request.query.inline === '1' && inlineTypes.has(contentType)
  const tag = `"${sha256}"`
  const common = {
    etag: tag,
    'cache-control': isPublic ? `public, max-age=${publicSeconds}` : 'private, no-cache',
    'x-content-type-options': 'nosniff',
    'content-security-policy': "sandbox; default-src 'none'",
    ...isPublic && { 'cross-origin-resource-policy': 'cross-origin' }
  }
  if (isKnownToCaller(request, tag)) return reply.headers(common).code(304).send()
  const isHead = request.method === 'HEAD'
  // Ranges are of GET only (RFC 9110, 14.2).
  const range = isHead ? null : rangeOf(request, size, tag)
  const read = (part?: ByteRange) => image === null ? service.bytesOf(file, part) : image.bytes(part)
  const bytes = isHead ? undefined : await service.openDownloads.read(service.accountOf(request), () => read(range ?? undefined))
  if (bytes === null) throw failure('notFound')
  const { start, end } = range ?? { start: 0, end: size - 1 }
  reply.code(range === null ? 200 : 206).headers({
    ...common,
    'content-type': headerOf(contentType),
    'content-disposition': disposition(contentType === file.contentType ? file.name : renamed(file.name, contentType), isInline),
    'accept-ranges': 'bytes',
    'content-length': end - start + 1,
    ...range !== null && { 'content-range': `bytes ${start}-${end}/${size}` }
  })
  // An injected request has no connection.
  if (request.raw.socket instanceof Socket) limitWriting(reply, unreadMs)
  return reply.send(bytes)
}

/** The name of an image that was converted to another type. */
function renamed (name: string, contentType: string): string {
  return `${name.replace(/\.[A-Za-z0-9]{1,5}$/, '')}.${contentType.slice('image/'.length)}`
}

/** The file, if the caller may read it. From here on, the request counts for the file's tenant. */
async function permitted (request: Download, service: FilesService): Promise<StoredFile> {
  const { bucket: name, '*': path } = request.params
  const bucket = service.buckets.find(name)
  const { expires, signature } = request.query
  const isSigned = expires !== undefined || signature !== undefined
  // Callers without a token do not learn which buckets and keys there are.
  if (bucket?.isPublic !== true && !isSigned && request.auth === null) throw tokenMissing()
  const { tenant, id } = parseKey(path)
  const { auth, tenant: own } = request
  const mayReadQuarantined = auth?.role === 'admin' && (own?.id === tenant || isPlatformAdmin(auth))
  if (isSigned && !service.admitsDownload({ tenant, bucket: name, id }, expires ?? 0, signature ?? '')) throw failure('urlSignatureInvalid')
  if (bucket === undefined) throw failure('notFound')
  if (!isSigned && !bucket.isPublic) {
    if (request.tenant?.id !== tenant) throw failure('notFound')
    await requirePermissions(request, bucket.permissions)
  }
  if (request.tenant?.id !== tenant) {
    const owner = await request.server.tenants.get(tenant)
    if (owner === null) throw failure('notFound')
    requireActive(owner)
    request.tenant = owner
  }
  const file = await (mayReadQuarantined ? service.store.findStored(tenant, id) : service.store.find(tenant, id))
  if (file === null || file.bucket !== name) throw failure('notFound')
  return file
}

const singleRange = /^bytes=(\d*)-(\d*)$/

/** null: the whole file, also for several ranges, or if the caller's part is of another version. Throws `rangeInvalid`. */
function rangeOf ({ headers }: FastifyRequest, size: number, tag: string): ByteRange | null {
  const [, first = '', last = ''] = singleRange.exec(headers.range ?? '') ?? []
  if (first === '' && last === '') return null
  const condition = headers['if-range']
  if (condition !== undefined && condition !== tag) return null
  const start = first === '' ? Math.max(size - Number(last), 0) : Number(first)
  const end = first === '' || last === '' ? size - 1 : Math.min(Number(last), size - 1)
  if (first !== '' && last !== '' && Number(last) < start) return null
  if (start > end || (first === '' && Number(last) === 0)) {
    throw failure('rangeInvalid', { message: `The file has ${size} bytes`, headers: { 'content-range': `bytes */${size}` } })
  }
  return { start, end }
}
