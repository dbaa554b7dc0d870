/** `app.routeFiles`: the forms of declared routes, their files, and the steps of workflows. */
import { createHash } from 'node:crypto'
import type { MultipartFile, MultipartValue } from '@fastify/multipart'
import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { withinSession } from '../../lib/database/kysely-dialect.js'
import { failure, isFailure } from '../../lib/errors.js'
import type { FileRules } from '../../lib/files/rules.js'
import { invalidInput } from '../../lib/validation/detail.js'
import { requirePermissions } from '../auth/access.js'
import { actorOf } from '../auth/actor.js'
import { reading, watchForm } from './body.js'
import { partsOf, readingPart } from './form.js'
import { describe } from './input.js'
import { type Form, formOf } from './multipart.js'
import type { Removal } from './removal.js'
import type { FilesService } from './service.js'
import { createStorageRunner } from './storage-runner.js'
import type { DeclaredForm, ReceivedForm, RouteFiles, StoredFile, Uploader } from './types.js'
import { type FileProperties, type Received, type Uploads, type UploadTenant, uploadTenantOf } from './uploads.js'

/** @param slowMs  milliseconds over which a form must bring 1 KB a second */
export function createRouteFiles (service: FilesService, rules: FileRules, slowMs: number): RouteFiles {
  return {
    rules,
    step: createStorageRunner(service),
    async receive (request, declared) {
      const form = formOf(request)
      if (form === undefined) throw failure('mediaTypeUnsupported', { message: 'Send the form as multipart/form-data' })
      const tenant = uploadTenantOf(request)
      const receive = (slow: Promise<never>) => receiveRouteForm(request, form, declared, tenant, service, uploaderOf(request), slow)
      return await service.uploads.inPlace(tenant.id, () => reading(request.raw, slowMs, receive))
    }
  }
}

/** A route may be open to callers without a token. */
function uploaderOf (request: FastifyRequest): Uploader {
  return { sub: request.auth?.sub ?? '', actor: actorOf(request) }
}

const maxFields = 100
const maxFieldBytes = 65_536

/**
 * Stores the files of the form. On failure nothing is left.
 *
 * @param slow  rejects if the form arrives too slowly
 */
async function receiveRouteForm (
  request: FastifyRequest,
  form: Form,
  { files, validate }: DeclaredForm,
  tenant: UploadTenant,
  { buckets, uploads, removal, shown, wake, log }: FilesService,
  by: Uploader,
  slow: Promise<never>
): Promise<ReceivedForm> {
  const expected = `the files ${files.map(({ name }) => name).join(', ')}, each once, and at most ${maxFields} fields`
  const sizeOfFile = watchForm(request.raw)
  const received = new Map<string, ReceivedFile>()
  const stored: Received[] = []
  const fields: Record<string, unknown> = {}
  let fieldBytes = 0

  const declaredFile = (name: string) => files.find((file) => file.name === name)

  function takeField ({ fieldname, value, mimetype, fieldnameTruncated, valueTruncated }: MultipartValue): void {
    const path = `/body/${fieldname.slice(0, 100)}`
    if (fieldnameTruncated) throw invalidInput(path, 'must have a name of at most 100 bytes', 'maxLength')
    if (declaredFile(fieldname) !== undefined) throw invalidInput(`/files/${fieldname}`, 'must be a file, with a file name', 'type')
    if (valueTruncated) throw invalidInput(path, `must have at most ${maxFieldBytes} bytes`, 'maxLength')
    // The form parser does not limit JSON.
    if (typeof value !== 'string') throw invalidInput(path, `must be text, but its Content-Type is ${mimetype}`, 'type')
    fieldBytes += Buffer.byteLength(value)
    const { bodyLimit } = request.routeOptions
    if (bodyLimit !== undefined && fieldBytes > bodyLimit) {
      throw failure('bodyTooLarge', { message: `The fields of the form have at most ${bodyLimit} bytes` })
    }
    const known = fields[fieldname]
    fields[fieldname] = known === undefined ? value : [known, value].flat()
  }

  async function takeFile (part: MultipartFile): Promise<void> {
    const { file, filename, fieldname, mimetype } = part
    const path = `/files/${fieldname.slice(0, 100)}`
    const declared = declaredFile(fieldname)
    if (declared === undefined) throw invalidInput(path, `is not accepted: the form has ${expected}`, 'additionalProperties')
    if (received.has(fieldname)) throw invalidInput(path, 'must be sent once', 'maxItems')
    await readingPart(part, slow, expected, async () => {
      // Browsers send an empty file field like this.
      if (filename === '') return await requireEmpty(file, path)
      const bucket = buckets.get(declared.bucket, path)
      await requirePermissions(request, bucket.permissions)
      const described = describe({ name: filename, bucket: bucket.name }, buckets, path)
      // All bytes after the start of the first file count as those of files.
      const size = files.length === 1 ? sizeOfFile() : null
      const upload = await uploads.receive(tenant, { bytes: file, expected: size, declaredType: mimetype, bucket, part: declared, by })
      stored.push(upload)
      received.set(fieldname, { part: fieldname, file: uploads.fileOf(tenant, upload, described, by), received: upload, described })
    })
  }

  const limits = {
    fieldNameSize: 100,
    fieldSize: maxFieldBytes,
    fields: maxFields,
    files: files.length + 1,
    parts: maxFields + files.length + 1
  }
  try {
    for await (const part of partsOf(form.parts({ limits }), slow, expected)) {
      if (part.type === 'field') takeField(part)
      else await takeFile(part)
    }
    for (const { name, required } of files) {
      if (required && !received.has(name)) throw invalidInput(`/files/${name}`, `is required: send a file in the field "${name}"`, 'required')
    }
    validate(fields)
  } catch (error) {
    for (const upload of stored) await uploads.discard(tenant.id, upload)
    throw error
  }
  return createReceivedForm({ uploads, removal, wake: () => wake(tenant.id), log }, tenant, by, [...received.values()], {
    fields,
    files: Object.fromEntries([...received].map(([name, { file }]) => [name, shown(file)]))
  })
}

async function requireEmpty (file: AsyncIterable<Buffer>, path: string): Promise<void> {
  for await (const chunk of file) if (chunk.length > 0) throw invalidInput(path, 'must have a file name', 'required')
}

/** A file with its bytes in the store. */
interface ReceivedFile {
  /** The name of its part in the form. */
  readonly part: string
  readonly file: StoredFile
  readonly received: Received
  readonly described: FileProperties
}

/** Files from a route's form. They become readable with the route's write, and are removed if the route fails. */
export interface ReceivedFormParts {
  readonly uploads: Pick<Uploads, 'complete' | 'discard'>
  readonly removal: Pick<Removal, 'delete'>
  readonly wake: () => void
  readonly log: FastifyBaseLogger
}

function createReceivedForm (
  { uploads, removal, wake, log }: ReceivedFormParts,
  tenant: UploadTenant,
  by: Uploader,
  received: readonly ReceivedFile[],
  { fields, files }: Pick<ReceivedForm, 'fields' | 'files'>
): ReceivedForm {
  let isComplete = false
  let isKept = false
  const form: ReceivedForm = {
    fields,
    files,
    get digest () {
      return createHash('sha256').update(JSON.stringify(received.map(({ part, file: { name, sha256 } }) => [part, name, sha256])))
        .digest('hex')
    },
    async complete (session) {
      await withinSession(session, async (transaction) => {
        for (const one of received) await uploads.complete(transaction, one.file, one.received, one.described, by)
      })
      isComplete = true
    },
    keep () {
      isKept = true
      wake()
    },
    async end () {
      if (isComplete) form.keep()
      else await form.discard(null)
    },
    async discard (error) {
      if (isKept) return
      for (const { received: upload } of received) {
        await uploads.discard(tenant.id, upload)
        // The route's write may be committed although the connection was lost: the files stay then.
        if (isFailure(error, 'databaseUnavailable')) continue
        await removal.delete(tenant.id, upload.id, by.actor).catch((err: unknown) => {
          log.error({ err, tenant: tenant.id, file: upload.id }, 'a file of a route that failed could not be removed')
        })
      }
    }
  }
  return form
}
