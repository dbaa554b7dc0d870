/** Schemas of the endpoints of documents and search. */
import { Type } from 'typebox'
import { ListOf, pageQuery } from '../../lib/http/page.js'
import { ModelUsage } from '../../lib/models/types.js'
import { named } from '../../lib/validation/named-schema.js'
import {
  maxBatch, maxDocumentLength, maxFilterMembers, maxIdLength, maxNameLength, maxQueryLength, maxTextLength, maxTexts
} from './bounds.js'
import { contentTypes, searchModes } from './types.js'

const closed = { additionalProperties: false } as const
const Usage = named('ModelUsage', ModelUsage)
const Metadata = Type.Object({}, { additionalProperties: true, description: 'The metadata sent with the document.' })

export const Texts = Type.Object({
  texts: Type.Array(Type.String({ minLength: 1, maxLength: maxTextLength }), {
    minItems: 1,
    maxItems: maxTexts,
    description: 'The texts. The response has one vector for each.'
  })
}, closed)
export const Vectors = named(
  'Embeddings',
  Type.Object({
    embeddings: Type.Array(Type.Array(Type.Number()), { description: 'One vector for each text, in the same order.' }),
    model: Type.String(),
    usage: Usage
  })
)

export const Document = Type.Object({
  document: Type.Optional(
    Type.String({ minLength: 1, maxLength: maxDocumentLength, description: 'The text of the document. Required without `fileId`.' })
  ),
  fileId: Type.Optional(
    Type.String({
      format: 'uuid',
      description:
        'The id of a file of the tenant to use instead of `document`; required for `application/pdf`. Text files are read as UTF-8.'
    })
  ),
  contentType: Type.Enum([...contentTypes]),
  metadata: Type.Optional(
    Type.Record(Type.String(), Type.Unknown(), {
      description: 'Metadata by which searches can filter: at most 64 members, 8,192 bytes of JSON, 4 levels. Default: none.'
    })
  ),
  id: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: maxIdLength,
      description: 'The id of the document. An existing document with this id is replaced. Default: a new UUID.'
    })
  )
}, closed)
export const Put = named(
  'EmbeddedDocument',
  Type.Object({
    success: Type.Boolean(),
    id: Type.String(),
    chunks: Type.Integer({ description: 'The number of chunks into which the document was split.' }),
    usage: Usage
  })
)

export const Batch = Type.Object({
  documents: Type.Array(Document, { minItems: 1, maxItems: maxBatch })
}, closed)
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
export const BatchParams = Type.Object({ id: Type.String({ format: 'uuid' }) })

export const ListQuery = Type.Object(pageQuery('Documents'), closed)
export const DocumentList = ListOf(named(
  'StoredDocument',
  Type.Object({
    id: Type.String(),
    contentType: Type.String(),
    metadata: Metadata,
    chunks: Type.Integer(),
    createdAt: Type.String({ format: 'date-time' })
  })
))
export const DocumentParams = Type.Object({ id: Type.String({ minLength: 1, maxLength: maxIdLength, pattern: '^[^\\u0000]*$' }) })

export const SearchBody = Type.Object({
  query: Type.String({ minLength: 1, maxLength: maxQueryLength }),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, description: 'The maximum number of results. Default: 10.' })),
  threshold: Type.Optional(
    Type.Number({ minimum: 0, maximum: 1, description: 'The minimum score: a cosine similarity, or for `text` a rank. Default: none.' })
  ),
  filter: Type.Optional(Type.Record(
    Type.String({ maxLength: maxNameLength }),
    Type.Union([Type.String({ maxLength: 1000 }), Type.Number(), Type.Boolean(), Type.Null()]),
    { maxProperties: maxFilterMembers, description: 'Members that the metadata of matching documents must have, with equal values.' }
  )),
  mode: Type.Optional(
    Type.Enum([...searchModes], {
      description:
        'The search mode. `vector`: by meaning. `text`: by words, with `"..."`, `or` and `-`. `hybrid`: both results combined by rank. Default: `vector`.'
    })
  )
}, closed)
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
