/** The bodies of documents and searches, and the limits of documents and their metadata. */
import { Type } from 'typebox'
import { ListOf, pageQuery } from '../../lib/http/page.js'
import { Time } from '../../lib/http/schemas.js'
import { isRecord } from '../../lib/json/plain-value.js'
import { isStorable, isStorableJson, unstorableText } from '../../lib/json/storable.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import { ModelUsage } from '../../lib/models/types.js'
import { ClosedObject, Optional } from '../../lib/schema/annotations.js'
import { invalidInput } from '../../lib/validation/detail.js'
import { named } from '../../lib/validation/named-schema.js'
import { contentTypes, type NewDocument, searchModes } from './types.js'

const maxTexts = 256 // in a request of POST /agent/embeddings
const maxTextLength = 32_000 // characters
const maxIdLength = 200 // characters
export const maxDocumentLength = 2_000_000 // characters of text
export const maxChunks = 2000 // of a document
const maxBatch = 100 // documents
const maxQueryLength = 4000 // characters
const maxFilterMembers = 20
const maxNameLength = 128 // characters of a name in metadata
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

const Usage = named('ModelUsage', ModelUsage)
const Metadata = Type.Object({}, { additionalProperties: true, description: 'The metadata sent with the document.' })

export const Texts = ClosedObject({
  texts: Type.Array(Type.String({ minLength: 1, maxLength: maxTextLength }), {
    minItems: 1,
    maxItems: maxTexts,
    description: 'The texts. The response has one vector for each.'
  })
})
export const Vectors = named(
  'Embeddings',
  Type.Object({
    embeddings: Type.Array(Type.Array(Type.Number()), { description: 'One vector for each text, in the same order.' }),
    model: Type.String(),
    usage: Usage
  })
)

export const Document = ClosedObject({
  document: Optional.String('The text of the document. Required without `fileId`.', { minLength: 1, maxLength: maxDocumentLength }),
  fileId: Optional.String(
    'The id of a file of the tenant to use instead of `document`; required for `application/pdf`. Text files are read as UTF-8.',
    { format: 'uuid' }
  ),
  contentType: Type.Enum([...contentTypes]),
  metadata: Optional.Map(
    'Metadata by which searches can filter: at most 64 members, 8,192 bytes of JSON, 4 levels. Default: none.',
    Type.Unknown()
  ),
  id: Optional.String(
    'The id of the document. An existing document with this id is replaced. Default: a new UUID.',
    { minLength: 1, maxLength: maxIdLength }
  )
})
export const Put = named(
  'EmbeddedDocument',
  Type.Object({
    success: Type.Boolean(),
    id: Type.String(),
    chunks: Type.Integer({ description: 'The number of chunks into which the document was split.' }),
    usage: Usage
  })
)

export const Batch = ClosedObject({ documents: Type.Array(Document, { minItems: 1, maxItems: maxBatch }) })
export const BatchQueued = named(
  'QueuedBatch',
  Type.Object({
    batchId: Type.String({ format: 'uuid' }),
    status: Type.Literal('queued'),
    total: Type.Integer(),
    statusUrl: Type.String({ description: "The path of the batch's status." })
  })
)
export const BatchStatus = named(
  'BatchStatus',
  Type.Object({
    batchId: Type.String({ format: 'uuid' }),
    status: Type.Enum(['queued', 'running', 'completed']),
    total: Type.Integer({ description: 'The number of documents in the batch.' }),
    done: Type.Integer({ description: 'The number of stored documents.' }),
    failed: Type.Array(
      Type.Object({
        index: Type.Integer({ description: 'The index of the document in the `documents` of the request, starting at 0.' }),
        error: Type.String()
      })
    )
  })
)

export const ListQuery = ClosedObject(pageQuery('Documents'))
export const DocumentList = ListOf(named(
  'StoredDocument',
  Type.Object({
    id: Type.String(),
    contentType: Type.String(),
    metadata: Metadata,
    chunks: Type.Integer(),
    createdAt: Time()
  })
))
export const DocumentParams = Type.Object({ id: Type.String({ minLength: 1, maxLength: maxIdLength, pattern: '^[^\\u0000]*$' }) })

export const SearchBody = ClosedObject({
  query: Type.String({ minLength: 1, maxLength: maxQueryLength }),
  limit: Optional.Integer('The maximum number of results. Default: 10.', { minimum: 1, maximum: 100 }),
  threshold: Optional.Number('The minimum score: a cosine similarity, or for `text` a rank. Default: none.', { minimum: 0, maximum: 1 }),
  filter: Type.Optional(Type.Record(
    // A `maxLength` of names has no effect. Each error of a value repeats its name.
    Type.String({ pattern: `^[^]{0,${maxNameLength}}$` }),
    Type.Union([Type.String({ maxLength: 1000 }), Type.Number(), Type.Boolean(), Type.Null()]),
    {
      additionalProperties: false,
      maxProperties: maxFilterMembers,
      description: 'Members that the metadata of matching documents must have, with equal values.'
    }
  )),
  mode: Optional.Enum(
    'The search mode. `vector`: by meaning. `text`: by words, with `"..."`, `or` and `-`. `hybrid`: both results combined by rank. Default: `vector`.',
    searchModes
  )
})
export const Results = named(
  'SearchResults',
  Type.Object({
    results: Type.Array(
      Type.Object({
        id: Type.String({ description: 'The id of the document.' }),
        chunk: Type.Integer({ description: 'The position of the chunk in the document, starting at 0.' }),
        content: Type.String(),
        score: Type.Number({
          description: 'The cosine similarity for `vector`; a rank from 0 to 1 for `text`; the sum of 1 / (60 + rank) for `hybrid`.'
        }),
        metadata: Metadata
      }),
      { description: 'The matching chunks, best match first.' }
    ),
    usage: Usage
  })
)

export const Reindexing = named(
  'Reindexing',
  Type.Object({
    success: Type.Boolean(),
    stale: Type.Boolean({ description: 'True if some documents were embedded with another model. A background job embeds them again.' })
  })
)
