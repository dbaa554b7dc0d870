/** Runs workflow steps of the type `storage`. */
import { addAbortSignal, Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { failure, isFailure } from '../../lib/errors.js'
import { type Owner, platformRef } from '../../lib/identity/tenant-ref.js'
import { isUuid } from '../../lib/identity/uuid.js'
import { isRecord } from '../../lib/json/plain-value.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import { longestSignatureSeconds } from '../../lib/schema/files.js'
import { invalidInput } from '../../lib/validation/detail.js'
import {
  isStorageOperation, type StepCall, type StepRunner, type StorageOperation, storageOperations, storageStep
} from '../../lib/workflows/service-steps.js'
import { presentTenant } from '../tenancy/tenant.js'
import { decodedText, isText } from './content-type.js'
import { describe, type UploadFields } from './input.js'
import type { FilesService } from './service.js'
import type { StoredFile, Uploader } from './types.js'

const maxContentBytes = 524_288 // that `get` reads: as base64 they fit into a step's result of 1 MiB

type Params = Readonly<Record<string, unknown>>
type Operation = (tenant: Owner, params: Params, call: StepCall) => Promise<unknown>

interface NewFile extends UploadFields {
  readonly contentType: string
}

export function createStorageRunner (service: FilesService): StepRunner {
  const { buckets, uploads, removal, store, tenants, shown } = service

  async function existing (tenant: Owner, params: Params): Promise<StoredFile> {
    const id = idIn(params)
    const file = id === null ? null : await store.find(tenant, id)
    if (file === null || buckets.find(file.bucket) === undefined) throw fileUnknown()
    return file
  }

  /** Stores the file of the step once, even if the step runs several times. */
  async function make (tenant: Owner, file: NewFile, size: number, open: () => Promise<Readable>, call: StepCall): Promise<StoredFile> {
    const { life, idempotencyKey: origin, signal } = call
    const owner = await presentTenant(tenants, tenant, life)
    const described = { ...describe(file, buckets, '/params/name'), origin }
    const by = uploaderOf(call)
    try {
      return await uploads.inPlace(tenant, async () => {
        const bytes = addAbortSignal(signal, await open())
        const { bucket } = described
        const incoming = { bytes, expected: size, declaredType: file.contentType, bucket, entity: described, by }
        // A refusal before the first byte leaves the stream open.
        const received = await uploads.receive(owner, incoming).finally(() => bytes.destroy())
        return await uploads.finish(owner, received, described, by)
      })
    } catch (error) {
      // Another attempt of the run stored the file first.
      const made = isFailure(error, 'conflict') ? await store.findMade(tenant, origin) : null
      if (made === null) throw error
      return made
    }
  }

  /** The file of the step: the one that an earlier attempt stored, or a new one. */
  async function once (tenant: Owner, { idempotencyKey }: StepCall, create: () => Promise<StoredFile>) {
    return shown(await store.findMade(tenant, idempotencyKey) ?? await create())
  }

  const operations = {
    async put (tenant, params, call) {
      return await once(tenant, call, async () => {
        const content = contentIn(params)
        const file = {
          name: textIn(params, 'name'),
          contentType: textIn(params, 'contentType'),
          bucket: optionalText(params, 'bucket'),
          entityType: optionalText(params, 'entityType'),
          entityId: optionalText(params, 'entityId')
        }
        return await make(tenant, file, content.length, async () => Readable.from([content]), call)
      })
    },

    async get (tenant, params, { signal }) {
      const file = await existing(tenant, params)
      if (file.size > maxContentBytes) {
        throw failure('answerTooLarge', { message: `The file has ${file.size} bytes, but a step can read at most ${maxContentBytes}` })
      }
      const bytes = await service.bytesOf(file)
      if (bytes === null) throw fileUnknown()
      const content = await buffer(addAbortSignal(signal, bytes))
      const text = isText(file.contentType) ? decodedText(content) : null
      return { ...shown(file), content: text ?? content.toString('base64'), encoding: text === null ? 'base64' : 'utf8' }
    },

    async delete (tenant, params, call) {
      const id = idIn(params)
      const isDeleted = id !== null && await removal.delete(tenant, id, uploaderOf(call))
      // An earlier attempt may have deleted the file.
      if (!isDeleted && !call.isRepeated) throw fileUnknown()
      return { success: true }
    },

    async copy (tenant, params, call) {
      return await once(tenant, call, async () => {
        const original = await existing(tenant, params)
        const { name, contentType, size, bucket, entityType, entityId, metadata } = original
        const same = { name, contentType, bucket, entityType, entityId, metadata: stringifyJson(metadata) }
        const open = async () => {
          const bytes = await service.bytesOf(original)
          if (bytes === null) throw fileUnknown()
          return bytes
        }
        return await make(tenant, same, size, open, call)
      })
    },

    async sign (tenant, params) {
      const { url, expiresAt } = await service.signDownload(await existing(tenant, params), secondsIn(params))
      return { url, expiresAt: expiresAt.toISOString() }
    }
  } as const satisfies Record<StorageOperation, Operation>

  return {
    check: storageStep.check,
    async run ({ operation, params }, call) {
      if (call.tenant === platformRef) throw failure('tenantRequired', { message: 'Files belong to tenants: run the workflow for a tenant' })
      if (!isStorageOperation(operation)) throw invalidInput('/operation', `must be one of ${storageOperations.join(', ')}`, 'enum')
      return await operations[operation](call.tenant, isRecord(params) ? params : {}, call)
    }
  }
}

function uploaderOf ({ user, webhookDepth: depth }: StepCall): Uploader {
  return { sub: user ?? '', actor: { userId: user, address: null }, depth }
}

function textIn (params: Params, name: string): string {
  const value = params[name]
  if (typeof value !== 'string') throw invalidInput(`/params/${name}`, 'must be a string', 'type')
  return value
}

function optionalText (params: Params, name: string): string | undefined {
  const value = params[name] ?? undefined
  if (value === undefined) return undefined
  return typeof value === 'number' ? String(value) : textIn(params, name)
}

/** null if the text cannot be the id of a file. */
function idIn (params: Params): string | null {
  const id = textIn(params, 'id').toLowerCase()
  return isUuid(id) ? id : null
}

const base64 = /^[A-Za-z0-9+/]*={0,2}$/

/** A text as it is; any other value as JSON. */
function contentIn (params: Params): Buffer {
  const { content, encoding = 'utf8' } = params
  if (content === undefined) throw invalidInput('/params/content', 'is required', 'required')
  const text = typeof content === 'string' ? content : stringifyJson(content)
  if (encoding === 'utf8') return Buffer.from(text)
  if (encoding !== 'base64') throw invalidInput('/params/encoding', 'must be utf8 or base64', 'enum')
  if (!base64.test(text) || text.length % 4 !== 0) throw invalidInput('/params/content', 'must be base64 with padding', 'format')
  return Buffer.from(text, 'base64')
}

function secondsIn ({ expiresIn }: Params): number | undefined {
  if (expiresIn === undefined || expiresIn === null) return undefined
  const seconds = Number(expiresIn)
  if (!Number.isInteger(seconds) || seconds < 1 || seconds > longestSignatureSeconds) {
    throw invalidInput('/params/expiresIn', `must be a whole number of seconds from 1 to ${longestSignatureSeconds}`, 'type')
  }
  return seconds
}

function fileUnknown (): Error {
  return failure('notFound', { message: 'The tenant has no such file' })
}
