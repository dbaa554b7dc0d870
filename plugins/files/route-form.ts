/** Forms of routes with `multipart`: each file that the route declares, at most once, and text fields. */
import type { Multipart, MultipartFile } from '@fastify/multipart'
import type { FastifyRequest } from 'fastify'
import type { CompiledFile } from '../../lib/compiler/files.js'
import type { DeclaredForm, ReceivedForm } from './declared.js'
import type { FilesService } from './service.js'
import type { Uploader } from './types.js'
import type { Received, UploadTenant } from './uploads.js'
import { failure } from '../../lib/errors.js'
import { invalidInput } from '../../lib/validation/detail.js'
import { requirePermissions } from '../auth/access.js'
import { watchForm } from './body.js'
import { nextOf, unreadable } from './form.js'
import { describe } from './input.js'
import { createReceivedForm, type ReceivedFile } from './received-form.js'

const maxFields = 100
const maxFieldBytes = 65_536

/**
 * Stores the files of the form. On failure nothing is left.
 *
 * @param slow  rejects if the form arrives too slowly
 */
export async function receiveRouteForm (
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
