/** Limits of documents and their metadata, and the errors beyond them. */
import type { NewDocument } from './types.js'
import { isRecord } from '../../lib/json/plain-value.js'
import { isStorable, isStorableJson, unstorableText } from '../../lib/json/storable.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import { invalidInput } from '../../lib/validation/detail.js'

export const maxTexts = 256 // in a request of POST /agent/embeddings
export const maxTextLength = 32_000 // characters
export const maxIdLength = 200 // characters
export const maxDocumentLength = 2_000_000 // characters of text
export const maxChunks = 2000 // of a document
export const maxBatch = 100 // documents
export const maxQueryLength = 4000 // characters
export const maxFilterMembers = 20
export const maxNameLength = 128 // characters of a name in metadata
const maxMetadataBytes = 8192 // of JSON
const maxMetadataMembers = 64
const maxMetadataDepth = 4 // objects and lists within each other, including the metadata itself

/** Throws `validationFailed`. `path`: the place of the document in the request. */
export function checkDocument ({ id, document, fileId, contentType, metadata = {} }: NewDocument, path: string): void {
  if ((document === undefined) === (fileId === undefined)) {
    throw invalidInput(`${path}/document`, 'is required without a fileId: send either of them', 'required')
  }
  if (contentType === 'application/pdf' && fileId === undefined) {
    throw invalidInput(`${path}/fileId`, 'is required: upload the PDF with POST /files/upload, and send its id', 'required')
  }
  // eslint-disable-next-line no-control-regex
  if (id !== undefined && /[\u0000-\u001f\u007f\p{Surrogate}]/u.test(id)) {
    throw invalidInput(`${path}/id`, 'must not contain control characters', 'pattern')
  }
  checkMetadata(metadata, `${path}/metadata`)
}

function checkMetadata (metadata: Readonly<Record<string, unknown>>, path: string): void {
  const names = Object.keys(metadata)
  if (names.length > maxMetadataMembers) throw invalidInput(path, `must have at most ${maxMetadataMembers} members`, 'maxProperties')
  if (names.some((name) => name.length > maxNameLength || name === '')) {
    throw invalidInput(path, `must have names of 1 to ${maxNameLength} characters`, 'propertyNames')
  }
  if (depthOf(metadata) > maxMetadataDepth) {
    throw invalidInput(path, `must not be nested deeper than ${maxMetadataDepth} levels`, 'maxDepth')
  }
  const text = stringifyJson(metadata)
  if (Buffer.byteLength(text) > maxMetadataBytes) {
    throw invalidInput(path, `must have at most ${maxMetadataBytes} bytes as JSON`, 'maxLength')
  }
  if (!isStorableJson(text)) throw invalidInput(path, unstorableText, 'pattern')
}

/** Throws `validationFailed` for texts that metadata cannot contain. */
export function checkFilter (filter: Readonly<Record<string, unknown>>, path: string): void {
  for (const [name, value] of Object.entries(filter)) {
    if (!isStorable(name) || (typeof value === 'string' && !isStorable(value))) throw invalidInput(path, unstorableText, 'pattern')
  }
}

/** The nesting depth of objects and lists. The JSON of a request has at most 64 levels. */
function depthOf (value: unknown): number {
  if (!Array.isArray(value) && !isRecord(value)) return 0
  return 1 + Object.values(value).reduce((most: number, item) => Math.max(most, depthOf(item)), 0)
}
