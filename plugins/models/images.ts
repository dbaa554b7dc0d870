/** Resolves the images in the messages of requests. */
import type { FastifyRequest } from 'fastify'
import type { Static } from 'typebox'
import { failure } from '../../lib/errors.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { MessagePart, ModelMessage } from '../../lib/models/types.js'
import { invalidInput } from '../../lib/validation/detail.js'
import { requirePermissions } from '../auth/access.js'
import type { Files } from '../files/types.js'
import type { Message } from './schemas.js'

const maxImageBytes = 5_242_880
const maxBytes = 20_971_520 // bytes of all images of a request
const types: ReadonlySet<string> = new Set(['image/png', 'image/jpeg', 'image/webp', 'image/gif'])

/**
 * Rejects with `validationFailed` for images that a model cannot take. Rejects with `forbidden` for files in a bucket that the
 * caller may not use.
 */
export async function readMessages (
  request: FastifyRequest,
  tenant: Owner,
  messages: ReadonlyArray<Static<typeof Message>>,
  files: Files | null
): Promise<ModelMessage[]> {
  const read: ModelMessage[] = []
  let left = maxBytes
  for (const [index, { role, content }] of messages.entries()) {
    if (typeof content === 'string') {
      read.push({ role, content })
      continue
    }
    const parts: MessagePart[] = []
    for (const [place, part] of content.entries()) {
      if (part.type === 'text') {
        parts.push(part)
        continue
      }
      const at = `/body/messages/${index}/content/${place}`
      if (role !== 'user') throw invalidInput(`${at}/type`, 'images are allowed only in messages of the role `user`', 'enum')
      const { mediaType, data } = await readImage(request, tenant, part.fileId, `${at}/fileId`, left, files)
      left -= data.length
      parts.push({ type: 'image', mediaType, data })
    }
    read.push({ role, content: parts })
  }
  return read
}

async function readImage (request: FastifyRequest, tenant: Owner, id: string, at: string, left: number, files: Files | null) {
  if (files === null) throw invalidInput(at, 'cannot be read: this server does not store files', 'enum')
  const file = await files.get(tenant, id)
  const permissions = file === null ? null : files.permissions(file.bucket)
  if (file === null || permissions === null) throw invalidInput(at, 'is not the id of a file of the tenant', 'enum')
  await requirePermissions(request, permissions)
  if (file.scan !== undefined) throw invalidInput(at, 'is the id of a file in quarantine', 'enum')
  if (!types.has(file.contentType)) throw invalidInput(at, 'must be an image of the type PNG, JPEG, WebP or GIF', 'enum')
  if (file.size > maxImageBytes) throw invalidInput(at, `must be an image of at most ${maxImageBytes / 1_048_576} MB`, 'maximum')
  if (file.size > left) throw invalidInput(at, `exceeds the limit: the images of a request can have at most ${maxBytes / 1_048_576} MB`, 'maximum')
  const stream = await files.open(tenant, id)
  if (stream === null) throw invalidInput(at, 'is not the id of a file of the tenant', 'enum')
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of stream) {
    const bytes = Buffer.from(chunk)
    size += bytes.length
    if (size > file.size) throw failure('storageUnavailable')
    chunks.push(bytes)
  }
  return { mediaType: file.contentType, data: Buffer.concat(chunks, size) }
}
