/** The form of an upload: one file, and fields before or after it. */
import type { Multipart, MultipartFile, MultipartValue } from '@fastify/multipart'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { failure, TenantryError } from '../../lib/errors.js'
import { invalidInput } from '../../lib/validation/detail.js'
import { requirePermissions } from '../auth/access.js'
import { renew } from '../auth/renewal.js'
import { requiredTenant } from '../tenancy/required.js'
import { watchForm } from './body.js'
import { formLimits } from './buckets.js'
import { describe, publicOf, type UploadFields } from './input.js'
import type { Form } from './multipart.js'
import type { FilesService } from './service.js'
import type { StoredFile } from './types.js'
import { type Received, uploaderOf } from './uploads.js'

const fieldNames = ['entityType', 'entityId', 'public', 'bucket', 'metadata'] as const
const expected = `one file, and the fields ${fieldNames.join(', ')}`
type Fields = Partial<Record<typeof fieldNames[number], string>>

/** Stores the file of the form. On failure nothing is left. `slow` rejects if the form arrives too slowly. */
export async function receiveForm (
  request: FastifyRequest,
  reply: FastifyReply,
  form: Form,
  { buckets, uploads }: FilesService,
  slow: Promise<never>
): Promise<StoredFile> {
  const tenant = requiredTenant(request)
  const by = uploaderOf(request)
  const fileSize = watchForm(request.raw)
  const fields: Fields = {}
  let name: string | undefined
  let received: Received | null = null
  try {
    for await (const part of partsOf(form.parts(), slow, expected)) {
      if (part.type === 'field') {
        take(fields, part)
        continue
      }
      if (received !== null || part.fieldname !== 'file') {
        throw invalidInput(
          `/body/${part.fieldname.slice(0, 100)}`,
          'is not accepted: the form has one file, in the field "file"',
          'maxItems'
        )
      }
      name = part.filename
      // Later fields may name another bucket.
      const isKnown = fields.bucket !== undefined || fields.public !== undefined
      const { entityType, entityId } = fields
      const entity = entityType === undefined || entityId === undefined ? undefined : describe({ entityType, entityId, name }, buckets)
      const { bucket } = isKnown
        ? describe({ ...uploadFieldsOf(fields), name, entityType: undefined, entityId: undefined }, buckets)
        : { bucket: null }
      if (bucket !== null) await requirePermissions(request, bucket.permissions)
      const incoming = { bytes: part.file, expected: fileSize(), declaredType: part.mimetype, bucket, entity, by }
      received = await readingPart(part, slow, expected, () => uploads.receive(tenant, incoming))
    }
    await renew(request, reply)
    if (received === null) throw invalidInput('/body/file', 'is required: send the file in the field "file"', 'required')
    const described = describe({ ...uploadFieldsOf(fields), name }, buckets)
    await requirePermissions(request, described.bucket.permissions)
    const complete = received
    received = null
    return await uploads.finish(tenant, complete, described, by)
  } catch (error) {
    if (received !== null) await uploads.discard(tenant.id, received)
    throw error
  }
}

/** The parts of a form. Throws `badRequest` for an unreadable form. `expected`: the parts that it may have, for the message. */
export async function * partsOf (parts: AsyncIterator<Multipart>, slow: Promise<never>, expected: string): AsyncGenerator<Multipart> {
  const next = () =>
    Promise.race([parts.next(), slow]).catch((error: unknown) => {
      throw unreadable(error, expected)
    })
  for (let { done, value } = await next(); done !== true; { done, value } = await next()) {
    if (!isNamed(value)) throw failure('badRequest', { message: 'A part of the form has no name' })
    yield value
  }
}

/** The parser's types do not show that the name may be missing. */
function isNamed ({ fieldname }: { readonly fieldname?: string | undefined }): boolean {
  return fieldname !== undefined
}

/** Runs the work that reads a part's file. If the form breaks off or arrives too slowly, rejects as `partsOf` does. */
export async function readingPart<T> ({ file }: MultipartFile, slow: Promise<never>, expected: string, work: () => Promise<T>): Promise<T> {
  // A short form may have failed before this part is read.
  let broken: unknown = file.errored
  file.once('error', (error) => {
    broken = error
  })
  slow.catch((error: Error) => {
    file.destroy(error)
  })
  try {
    return await work()
  } catch (error) {
    throw broken === null ? error : unreadable(error, expected)
  }
}

const tooMany: ReadonlySet<unknown> = new Set(['FST_PARTS_LIMIT', 'FST_FILES_LIMIT', 'FST_FIELDS_LIMIT'])

function unreadable (error: unknown, expected: string): unknown {
  if (error instanceof TenantryError) return error
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  const message = tooMany.has(code)
    ? `The form has too many parts: expected ${expected}`
    : 'The form cannot be read: expected multipart/form-data with a boundary, whole and well-formed'
  return failure('badRequest', { message, cause: error })
}

function take (fields: Fields, { fieldname, value, mimetype, fieldnameTruncated, valueTruncated }: MultipartValue): void {
  const name = fieldNames.find((known) => known === fieldname)
  const path = `/body/${fieldname.slice(0, 100)}`
  if (name === undefined || fieldnameTruncated) {
    throw invalidInput(path, `is not a known field: expected one of ${fieldNames.join(', ')}`, 'additionalProperties')
  }
  if (valueTruncated) throw invalidInput(path, `must have at most ${formLimits.fieldSize} bytes`, 'maxLength')
  if (fields[name] !== undefined) throw invalidInput(path, 'must be sent once', 'maxItems')
  // The form parser has parsed a JSON field, which rounds its numbers.
  if (typeof value !== 'string') throw invalidInput(path, `must be text, but its Content-Type is ${mimetype}`, 'type')
  fields[name] = value
}

function uploadFieldsOf ({ public: isPublic, ...fields }: Fields): Omit<UploadFields, 'name'> {
  return { ...fields, public: publicOf(isPublic) }
}
