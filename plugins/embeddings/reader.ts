/** Reads the text of documents and splits it into chunks. */
import { buffer } from 'node:stream/consumers'
import { type Block, textBlocks } from '../../lib/chunking/blocks.js'
import { markdownBlocks } from '../../lib/chunking/markdown.js'
import { maxPdfBytes, pdfText } from '../../lib/chunking/pdf.js'
import { splitBlocks } from '../../lib/chunking/split.js'
import { createYielder } from '../../lib/concurrency/event-loop-yielder.js'
import { createTenantLimiter } from '../../lib/concurrency/tenant-limiter.js'
import { failure, retryIn } from '../../lib/errors.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { storable } from '../../lib/json/storable.js'
import type { Models } from '../../lib/models/types.js'
import type { Files } from '../files/types.js'
import { maxChunks, maxDocumentLength } from './schemas.js'
import type { NewDocument } from './types.js'

const pdfAtOnce = 2 // of a server: the process of each takes up to 384 MB
const pdfWaiting = 8 // of a tenant
const pdfWaitMs = 60_000
const retryAfter = 5 // s
const maxTextBytes = 4 * maxDocumentLength // of a file, in UTF-8

type Source = Pick<NewDocument, 'contentType' | 'document' | 'fileId'>

export interface ReaderParts {
  readonly models: Pick<Models, 'countTokens'>
  /** null without the plugin files. */
  readonly files: () => Pick<Files, 'get' | 'open'> | null
}

export type DocumentReader = ReturnType<typeof createReader>

export function createReader ({ models, files }: ReaderParts) {
  const busy = () => failure('documentsBusy', retryIn(retryAfter))
  const places = createTenantLimiter({
    maxOfTenant: pdfWaiting,
    maxInAll: pdfAtOnce,
    maxWait: pdfWaitMs,
    tooManyOfTenant: busy,
    tooManyInAll: busy
  })
  const closed = new AbortController()

  async function bytesOf (tenant: Owner, fileId: string, most: number): Promise<Buffer<ArrayBuffer>> {
    const store = files()
    if (store === null) throw failure('badRequest', { message: 'This server does not store files: send the text as `document`' })
    const file = await store.get(tenant, fileId)
    if (file !== null && file.size > most) {
      throw failure('fileTooLarge', { message: `The file has more than ${Math.floor(most / 1_000_000)} MB: split it` })
    }
    const bytes = file === null ? null : await store.open(tenant, fileId)
    if (bytes === null) throw failure('notFound', { message: 'The tenant has no such file' })
    return await buffer(bytes)
  }

  async function blocksOf (
    tenant: Owner,
    { contentType, document, fileId = '' }: Source,
    signal: AbortSignal
  ): Promise<Iterable<readonly Block[]>> {
    if (contentType === 'application/pdf') {
      const either = AbortSignal.any([signal, closed.signal])
      const text = await places.run(tenant, async () =>
        await pdfText(await bytesOf(tenant, fileId, maxPdfBytes), maxDocumentLength, either))
      return textBlocks(text)
    }
    const text = document ?? (await bytesOf(tenant, fileId, maxTextBytes)).toString('utf8')
    if (text.length > maxDocumentLength) {
      throw failure('documentUnreadable', { message: `The document has more than ${maxDocumentLength} characters: split it` })
    }
    switch (contentType) {
      case 'text/plain':
        return textBlocks(text)
      case 'text/markdown':
        return markdownBlocks(text)
      case 'text/html': {
        const { htmlBlocks } = await import('../../lib/chunking/html.js')
        return htmlBlocks(text)
      }
      default:
        return contentType satisfies never
    }
  }

  return {
    /** The chunks of the document, at least one. Rejects with `documentUnreadable`, `documentsBusy` and `notFound`. */
    async read (tenant: Owner, document: Source, signal: AbortSignal): Promise<string[]> {
      const blocks = await blocksOf(tenant, document, signal)
      const chunks = await splitBlocks(blocks, { countTokens: models.countTokens, yielder: createYielder(tenant), maxChunks })
      if (chunks.length === 0) throw failure('documentUnreadable', { message: 'The document has no text' })
      if (chunks.length > maxChunks) {
        throw failure('documentUnreadable', { message: `The document has more than ${maxChunks} chunks of 400 tokens: split it` })
      }
      return chunks.map(storable)
    },
    /** Refuses waiting PDF files, and ends the processes of the others. */
    close () {
      places.close()
      closed.abort(failure('stopping'))
    }
  }
}
