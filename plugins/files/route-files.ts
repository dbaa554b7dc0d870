/** `app.routeFiles`: the forms of declared routes, their files, and the steps of workflows. */
import { createHash } from 'node:crypto'
import type { Multipart, MultipartFile } from '@fastify/multipart'
import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import type { CompiledFile } from '../../lib/compiler/files.js'
import { withinSession } from '../../lib/database/kysely-dialect.js'
import { failure, isFailure } from '../../lib/errors.js'
import type { FileRules } from '../../lib/files/rules.js'
import { invalidInput } from '../../lib/validation/detail.js'
import { requirePermissions } from '../auth/access.js'
import { actorOf } from '../auth/actor.js'
import { reading, watchForm } from './body.js'
import { nextOf, unreadable } from './form.js'
import { describe } from './input.js'
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
    async receive (request, form) {
      if (!request.isMultipart()) throw failure('mediaTypeUnsupported', { message: 'Send the form as multipart/form-data' })
      const tenant = uploadTenantOf(request)
      const receive = (slow: Promise<never>) => receiveRouteForm(request, form, tenant, service, uploaderOf(request), slow)
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
  form: DeclaredForm,
  tenant: UploadTenant,
  service: FilesService,
  by: Uploader,
  slow: Promise<never>
): Promise<ReceivedForm> {
  const reading = new FormReading(request, form, tenant, service, by, slow)
  try {
    return await reading.run()
  } catch (error) {
    await reading.discard()
    throw error
  }
}

class FormReading {
  readonly #request: FastifyRequest
  readonly #form: DeclaredForm
  readonly #tenant: UploadTenant
  readonly #service: FilesService
  readonly #by: Uploader
  readonly #slow: Promise<never>
  readonly #expected: string
  readonly #received = new Map<string, ReceivedFile>()
  readonly #uploads: Received[] = []
  readonly #fields: Record<string, unknown> = {}
  #fieldBytes = 0

  constructor (
    request: FastifyRequest,
    form: DeclaredForm,
    tenant: UploadTenant,
    service: FilesService,
    by: Uploader,
    slow: Promise<never>
  ) {
    this.#request = request
    this.#form = form
    this.#tenant = tenant
    this.#service = service
    this.#by = by
    this.#slow = slow
    this.#expected = `the files ${form.files.map(({ name }) => name).join(', ')}, each once, and at most ${maxFields} fields`
  }

  async run (): Promise<ReceivedForm> {
    const { files, validate } = this.#form
    const { uploads, removal, shown, wake, log } = this.#service
    const sizeOfFile = watchForm(this.#request.raw)
    // All bytes after the start of the first file count as those of files.
    const expected = files.length === 1 ? sizeOfFile : () => null
    const limits = {
      fieldNameSize: 100,
      fieldSize: maxFieldBytes,
      fields: maxFields,
      files: files.length + 1,
      parts: maxFields + files.length + 1
    }
    const parts = this.#request.parts({ limits })
    for (
      let part = await nextOf(parts, this.#slow, this.#expected);
      part !== null;
      part = await nextOf(parts, this.#slow, this.#expected)
    ) {
      if (part.type === 'field') this.#takeField(part)
      else await this.#takeFile(part, expected)
    }
    for (const { name, required } of files) {
      if (required && !this.#received.has(name)) {
        throw invalidInput(`/files/${name}`, `is required: send a file in the field "${name}"`, 'required')
      }
    }
    validate(this.#fields)
    const received = [...this.#received.values()]
    const shownFiles = Object.fromEntries([...this.#received].map(([name, { file }]) => [name, shown(file)]))
    return createReceivedForm({ uploads, removal, wake: () => wake(this.#tenant.id), log }, this.#tenant, this.#by, received, {
      fields: this.#fields,
      files: shownFiles
    })
  }

  async discard (): Promise<void> {
    for (const received of this.#uploads) await this.#service.uploads.discard(this.#tenant.id, received)
  }

  #takeField ({ fieldname, value, mimetype, fieldnameTruncated, valueTruncated }: Extract<Multipart, { type: 'field' }>): void {
    const path = `/body/${fieldname.slice(0, 100)}`
    if (fieldnameTruncated) throw invalidInput(path, 'must have a name of at most 100 bytes', 'maxLength')
    if (this.#declared(fieldname) !== undefined) throw invalidInput(`/files/${fieldname}`, 'must be a file, with a file name', 'type')
    if (valueTruncated) throw invalidInput(path, `must have at most ${maxFieldBytes} bytes`, 'maxLength')
    // The form parser does not limit JSON.
    if (typeof value !== 'string') throw invalidInput(path, `must be text, but its Content-Type is ${mimetype}`, 'type')
    this.#fieldBytes += Buffer.byteLength(value)
    const { bodyLimit } = this.#request.routeOptions
    if (bodyLimit !== undefined && this.#fieldBytes > bodyLimit) {
      throw failure('bodyTooLarge', { message: `The fields of the form have at most ${bodyLimit} bytes` })
    }
    const known = this.#fields[fieldname]
    this.#fields[fieldname] = known === undefined ? value : [known, value].flat()
  }

  async #takeFile (part: MultipartFile, expected: () => number | null): Promise<void> {
    const { file, filename, fieldname, mimetype } = part
    const path = `/files/${fieldname.slice(0, 100)}`
    const declared = this.#declared(fieldname)
    if (declared === undefined) throw invalidInput(path, `is not accepted: the form has ${this.#expected}`, 'additionalProperties')
    if (this.#received.has(fieldname)) throw invalidInput(path, 'must be sent once', 'maxItems')
    // A short form may have failed before this part is read.
    let broken: unknown = file.errored
    file.once('error', (error) => {
      broken = error
    })
    this.#slow.catch((error: Error) => {
      file.destroy(error)
    })
    const reading = async () => {
      // Browsers send an empty file field like this.
      if (filename === '') return await requireEmpty(file, path)
      const bucket = this.#service.buckets.get(declared.bucket, path)
      await requirePermissions(this.#request, bucket.permissions)
      const described = describe({ name: filename, bucket: bucket.name }, this.#service.buckets, path)
      const incoming = { bytes: file, expected: expected(), declaredType: mimetype, bucket, part: declared, by: this.#by }
      const received = await this.#service.uploads.receive(this.#tenant, incoming)
      this.#uploads.push(received)
      const stored = this.#service.uploads.fileOf(this.#tenant, received, described, this.#by)
      this.#received.set(fieldname, { part: fieldname, file: stored, received, described })
    }
    await reading().catch((error: unknown) => {
      throw broken === null ? error : unreadable(error, this.#expected)
    })
  }

  #declared (name: string): CompiledFile | undefined {
    return this.#form.files.find((file) => file.name === name)
  }
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
