/** The form of an upload: one file, and fields before or after it. */
import type { Multipart, MultipartValue } from '@fastify/multipart'
import type { FastifyRequest } from 'fastify'
import type { FilesService } from './service.js'
import type { StoredFile, Uploader } from './types.js'
import type { Received, UploadTenant } from './uploads.js'
import { failure, TenantryError } from '../../lib/errors.js'
import { invalidInput } from '../../lib/validation-detail.js'
import { requirePermissions } from '../auth/access.js'
import { watchForm } from './body.js'
import { describe, type Said } from './input.js'

/** Of the whole form. Sizes of files are bounded as they arrive. */
export const formLimits = {
  fieldNameSize: 100, // bytes
  fieldSize: 32_768, // bytes
  fields: 8,
  files: 2,
  parts: 10,
  headerPairs: 20,
  fileSize: Number.MAX_SAFE_INTEGER
}

const fieldNames = ['entityType', 'entityId', 'public', 'bucket', 'metadata'] as const
type Fields = Partial<Record<typeof fieldNames[number], string>>

/**
 * Stores the file of the form. On failure nothing is left.
 *
 * @param slow  rejects where the form comes too slowly
 */
export async function receiveForm (
  request: FastifyRequest, tenant: UploadTenant, { buckets, uploads }: FilesService, by: Uploader, slow: Promise<never>
): Promise<StoredFile> {
  const fileSize = watchForm(request.raw)
  const fields: Fields = {}
  let name: string | undefined
  let received: Received | null = null
  try {
    const parts = request.parts()
    for (let part = await nextOf(parts, slow); part !== null; part = await nextOf(parts, slow)) {
      if (part.type === 'field') {
        take(fields, part)
        continue
      }
      if (received !== null || part.fieldname !== 'file') {
        throw invalidInput(`/body/${part.fieldname.slice(0, 100)}`, 'is not accepted: the form has one file, in the field "file"', 'maxItems')
      }
      name = part.filename
      // Fields that come later may name another one.
      const isKnown = fields.bucket !== undefined || fields.public !== undefined
      const { bucket } = isKnown ? describe({ ...saidIn(fields), name, entityType: undefined, entityId: undefined }, buckets) : { bucket: null }
      if (bucket !== null) await requirePermissions(request, bucket.permissions)
      const { file } = part
      let broken: unknown
      file.once('error', (error) => { broken = error })
      slow.catch((error: Error) => { file.destroy(error) })
      const incoming = { bytes: file, expected: fileSize(), declaredType: part.mimetype, bucket, by }
      received = await uploads.receive(tenant, incoming).catch((error: unknown) => {
        throw broken === undefined ? error : unreadable(error)
      })
    }
    if (received === null) throw invalidInput('/body/file', 'is required: send the file in the field "file"', 'required')
    const described = describe({ ...saidIn(fields), name }, buckets)
    await requirePermissions(request, described.bucket.permissions)
    const complete = received
    received = null
    return await uploads.finish(tenant, complete, described, by)
  } catch (error) {
    if (received !== null) await uploads.discard(tenant.id, received)
    throw error
  }
}

async function nextOf (parts: AsyncIterator<Multipart>, slow: Promise<never>): Promise<Multipart | null> {
  try {
    const { done, value } = await Promise.race([parts.next(), slow])
    return done === true ? null : value
  } catch (error) {
    throw unreadable(error)
  }
}

const tooMany: ReadonlySet<unknown> = new Set(['FST_PARTS_LIMIT', 'FST_FILES_LIMIT', 'FST_FIELDS_LIMIT'])

function unreadable (error: unknown): unknown {
  if (error instanceof TenantryError) return error
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  const message = tooMany.has(code)
    ? `The form has too many parts: expected one file, and the fields ${fieldNames.join(', ')}`
    : 'The form cannot be read: expected multipart/form-data with a boundary, whole and well-formed'
  return failure('badRequest', { message, cause: error })
}

function take (fields: Fields, { fieldname, value, fieldnameTruncated, valueTruncated }: MultipartValue): void {
  const name = fieldNames.find((known) => known === fieldname)
  const path = `/body/${fieldname.slice(0, 100)}`
  if (name === undefined || fieldnameTruncated) {
    throw invalidInput(path, `is not a known field: there are ${fieldNames.join(', ')}`, 'additionalProperties')
  }
  if (valueTruncated) throw invalidInput(path, `must have at most ${formLimits.fieldSize} bytes`, 'maxLength')
  if (fields[name] !== undefined) throw invalidInput(path, 'must be there once', 'maxItems')
  // A field with the type application/json is parsed.
  fields[name] = typeof value === 'string' ? value : JSON.stringify(value)
}

function saidIn ({ public: isPublic, ...fields }: Fields): Omit<Said, 'name'> {
  if (isPublic === undefined) return fields
  if (isPublic !== 'true' && isPublic !== 'false') throw invalidInput('/body/public', 'must be true or false', 'type')
  return { ...fields, public: isPublic === 'true' }
}
