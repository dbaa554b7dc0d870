/** `app.routeFiles`: the forms of declared routes, their files, and the steps of workflows. */
import { createHash } from 'node:crypto'
import type { MultipartFile, MultipartValue } from '@fastify/multipart'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { withinSession } from '../../lib/database/kysely-dialect.js'
import { failure, isFailure } from '../../lib/errors.js'
import type { FileRules } from '../../lib/files/rules.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { ReceivedForm } from '../../lib/runtime/route-call.js'
import type { DeclaredForm } from '../../lib/runtime/services.js'
import { invalidInput } from '../../lib/validation/detail.js'
import { requirePermissions } from '../auth/access.js'
import { renew } from '../auth/renewal.js'
import { requiredTenant, tenantOf } from '../tenancy/required.js'
import { watchForm } from './body.js'
import { partsOf, readingPart } from './form.js'
import { describe } from './input.js'
import { type Form, formOf } from './multipart.js'
import type { FilesService } from './service.js'
import { createStorageRunner } from './storage-runner.js'
import type { StoredFile, Uploader } from './types.js'
import { type FileProperties, type Received, uploaderOf } from './uploads.js'

export function createRouteFiles (service: FilesService, rules: FileRules): FastifyInstance['routeFiles'] {
  return {
    rules,
    step: createStorageRunner(service),
    async receive (request, reply, declared) {
      const form = formOf(request)
      if (form === undefined) throw failure('mediaTypeUnsupported', { message: 'Send the form as multipart/form-data' })
      const receive = (slow: Promise<never>) => receiveRouteForm(request, reply, form, declared, service, slow)
      const address = service.addressWithoutToken(request)
      return await service.uploads.inPlace(tenantOf(request), () => service.reading(request.raw, receive), address)
    }
  }
}

const maxFields = 100
const maxFieldBytes = 65_536

/** Stores the files of the form. On failure nothing is left. `slow` rejects if the form arrives too slowly. */
async function receiveRouteForm (
  request: FastifyRequest,
  reply: FastifyReply,
  form: Form,
  { files, validate }: DeclaredForm,
  service: FilesService,
  slow: Promise<never>
): Promise<ReceivedForm> {
  const tenant = requiredTenant(request)
  const by = uploaderOf(request)
  const { buckets, uploads, shown } = service
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
    for await (const part of partsOf(form.parts(limits), slow, expected)) {
      if (part.type === 'field') takeField(part)
      else await takeFile(part)
    }
    await renew(request, reply)
    for (const { name, required } of files) {
      if (required && !received.has(name)) throw invalidInput(`/files/${name}`, `is required: send a file in the field "${name}"`, 'required')
    }
    await validate(fields)
  } catch (error) {
    for (const upload of stored) await uploads.discard(tenant.id, upload)
    throw error
  }
  return createReceivedForm(service, tenant.id, by, [...received.values()], {
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
function createReceivedForm (
  { uploads, removal, log }: FilesService,
  tenant: Owner,
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
      uploads.wake(tenant)
    },
    async end () {
      if (isComplete) form.keep()
      else await form.discard(null)
    },
    async discard (error) {
      if (isKept) return
      for (const { received: upload } of received) {
        await uploads.discard(tenant, upload)
        // The route's write may be committed although the connection was lost: the files stay then.
        if (isFailure(error, 'databaseUnavailable')) continue
        await removal.delete(tenant, upload.id, by).catch((err: unknown) => {
          log.error({ err, tenant, file: upload.id }, 'a file of a route that failed could not be removed')
        })
      }
    }
  }
  return form
}
