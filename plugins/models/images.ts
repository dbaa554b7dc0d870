/** Resolves the images in the messages of requests. */
import { addAbortSignal, type Readable } from 'node:stream'
import type { FastifyRequest } from 'fastify'
import type { Static } from 'typebox'
import { failure } from '../../lib/errors.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { ImagePart, MessagePart, ModelMessage } from '../../lib/models/types.js'
import { invalidInput } from '../../lib/validation/detail.js'
import { requirePermissions } from '../auth/access.js'
import type { Files } from '../files/types.js'
import type { Message } from './schemas.js'

const maxImageBytes = 5_242_880
const maxBytes = 20_971_520 // bytes of all images of a request
const types: ReadonlySet<string> = new Set(['image/png', 'image/jpeg', 'image/webp', 'image/gif'])

/**
 * Finds the images, which the call reads. Rejects with `validationFailed` for images that a model cannot take. Rejects with `forbidden`
 * for files in a bucket that the caller may not use.
 */
export async function findImages (
  request: FastifyRequest,
  tenant: Owner,
  messages: ReadonlyArray<Static<typeof Message>>,
  files: Files | null
): Promise<ModelMessage[]> {
  const found: ModelMessage[] = []
  const images = new Map<string, ImagePart>()
  let left = maxBytes
  for (const [index, { role, content }] of messages.entries()) {
    if (typeof content === 'string') {
      found.push({ role, content })
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
      const image = images.get(part.fileId) ?? await findImage(request, tenant, part.fileId, `${at}/fileId`, files)
      images.set(part.fileId, image)
      left -= image.data.length
      if (left < 0) {
        throw invalidInput(
          `${at}/fileId`,
          `exceeds the limit: the images of a request can have at most ${maxBytes / 1_048_576} MB`,
          'maximum'
        )
      }
      parts.push(image)
    }
    found.push({ role, content: parts })
  }
  return found
}

async function findImage (
  request: FastifyRequest,
  tenant: Owner,
  id: string,
  at: string,
  files: Files | null
): Promise<ImagePart> {
  if (files === null) throw invalidInput(at, 'cannot be read: this server does not store files', 'enum')
  const file = await files.get(tenant, id)
  const permissions = file === null ? null : files.permissions(file.bucket)
  if (file === null || permissions === null) throw invalidInput(at, 'is not the id of a file of the tenant', 'enum')
  await requirePermissions(request, permissions)
  if (file.scan !== undefined) throw invalidInput(at, 'is the id of a file in quarantine', 'enum')
  if (!types.has(file.contentType)) throw invalidInput(at, 'must be an image of the type PNG, JPEG, WebP or GIF', 'enum')
  if (file.size > maxImageBytes) throw invalidInput(at, `must be an image of at most ${maxImageBytes / 1_048_576} MB`, 'maximum')
  return {
    type: 'image',
    mediaType: file.contentType,
    data: {
      length: file.size,
      async read (signal) {
        const stream = await files.open(tenant, id)
        if (stream === null) throw invalidInput(at, 'is not the id of a file of the tenant', 'enum')
        return await bytesIn(stream, file.size, signal)
      }
    }
  }
}

async function bytesIn (stream: Readable, maxBytes: number, signal: AbortSignal): Promise<Uint8Array> {
  const chunks: Buffer[] = []
  let size = 0
  try {
    for await (const chunk of addAbortSignal(signal, stream)) {
      const bytes = Buffer.from(chunk)
      size += bytes.length
      if (size > maxBytes) throw failure('storageUnavailable')
      chunks.push(bytes)
    }
  } catch (error) {
    signal.throwIfAborted()
    throw error
  }
  return Buffer.concat(chunks, size)
}
