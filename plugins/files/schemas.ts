/** Schemas of the endpoints of files. */
import { Type } from 'typebox'
import { longestSignatureSeconds } from '../../lib/schema/files.js'
import { imageQuery } from '../../lib/files/images.js'
import { pageQuery, ListOf } from '../../lib/http/page.js'
import { named } from '../../lib/validation/named-schema.js'
import { maxEntityLength, maxMetadataLength, maxNameLength } from './input.js'

export const closed = { additionalProperties: false } as const

const TextOrNull = (description: string) => Type.Union([Type.String(), Type.Null()], { description })

export const File = named(
  'File',
  Type.Object({
    id: Type.String({ format: 'uuid' }),
    bucket: Type.String(),
    key: Type.String({ description: 'The path of the bytes within the bucket.' }),
    name: Type.String({ description: 'As the uploader called it.' }),
    contentType: Type.String({ description: 'The type that the first bytes show. The declared type counts only for text.' }),
    size: Type.Integer({ description: 'Bytes.' }),
    sha256: Type.String({ description: 'Of the bytes, in hexadecimal.' }),
    public: Type.Boolean({ description: 'Anyone may download it: its bucket is public.' }),
    entityType: TextOrNull('The kind of entity that it belongs to, such as a table.'),
    entityId: TextOrNull('The id of that entity.'),
    metadata: Type.Object({}, { additionalProperties: true, description: 'As the uploader sent it.' }),
    createdBy: Type.String({ description: 'The `sub` of the uploader.' }),
    createdAt: Type.String({ format: 'date-time' }),
    url: Type.String({ description: 'The path of its download.' }),
    scan: Type.Optional(Type.Object({
      status: Type.Enum(['waiting', 'infected', 'tooLarge'], { description: '`waiting` for its scan; `tooLarge` for the scanner.' }),
      signature: TextOrNull('The name that the scanner has for the malware.')
    }, { description: 'Only of a file in quarantine, which administrators of the tenant alone can read.' }))
  })
)
export const FileList = ListOf(File)

export const FileParams = Type.Object({ fileId: Type.String({ format: 'uuid' }) })
export const EntityParams = Type.Object({
  entityType: Type.String({ minLength: 1, maxLength: maxEntityLength, pattern: '^[^\\u0000]*$' }),
  entityId: Type.String({ minLength: 1, maxLength: maxEntityLength, pattern: '^[^\\u0000]*$' })
})
export const ListQuery = Type.Object(pageQuery('Files'), closed)

export const KeyParams = Type.Object({ bucket: Type.String(), '*': Type.String({ description: 'The `key` of the file.' }) })

export const DownloadQuery = Type.Object({
  inline: Type.Optional(Type.Enum(['0', '1'], {
    description: '`1`: a browser shows the file, if its type is safe. Default: `0`, it saves the file.'
  })),
  expires: Type.Optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description: 'Of a signed URL.' })),
  signature: Type.Optional(Type.String({ maxLength: 100, description: 'Of a signed URL.' })),
  ...imageQuery
}, closed)

export const SignQuery = Type.Object({
  expiresIn: Type.Optional(Type.Integer({
    minimum: 1,
    maximum: longestSignatureSeconds,
    description: 'Seconds for which the URL holds. Default: `files.signedUrlSeconds` of the document, 3600.'
  }))
}, closed)
export const SignedUrl = named(
  'SignedUrl',
  Type.Object({
    url: Type.String({ description: 'A path of this server, or the address of the store. It needs no token.' }),
    expiresAt: Type.String({ format: 'date-time' })
  })
)

export const Announcement = Type.Object({
  name: Type.String({ minLength: 1, maxLength: maxNameLength }),
  contentType: Type.String({
    maxLength: 200,
    pattern: '^[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+( *;[ -~]*)?$',
    expected: 'a media type, such as `text/plain`',
    description: 'It counts only for text; of other files the bytes show it.'
  }),
  size: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER, description: 'Bytes. Another number is refused.' }),
  bucket: Type.Optional(Type.String({ description: 'Default: `private`.' })),
  entityType: Type.Optional(Type.String({ minLength: 1, maxLength: maxEntityLength })),
  entityId: Type.Optional(Type.String({ minLength: 1, maxLength: maxEntityLength })),
  metadata: Type.Optional(Type.Object({}, { additionalProperties: true, description: `At most ${maxMetadataLength} characters of JSON.` }))
}, closed)
export const SignedUpload = named(
  'SignedUpload',
  Type.Object({
    id: Type.String({ format: 'uuid', description: 'The id of the file.' }),
    method: Type.Literal('PUT'),
    url: Type.String({ description: 'Where to send the bytes: a path of this server, or the address of the store. It needs no token.' }),
    headers: Type.Record(Type.String(), Type.String(), { description: 'Headers that the request must have.' }),
    expiresAt: Type.String({ format: 'date-time', description: 'Until then the bytes must come, and be confirmed.' })
  })
)

export const ContentQuery = Type.Object({
  tenant: Type.String({ pattern: '^[A-Za-z0-9_-]{1,64}$' }),
  size: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
  expires: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
  signature: Type.String({ maxLength: 100 })
}, closed)

/** The form of an upload, for the documentation. */
export const UploadForm = Type.Object({
  file: Type.String({ format: 'binary' }),
  entityType: Type.Optional(Type.String({ maxLength: maxEntityLength })),
  entityId: Type.Optional(Type.String({ maxLength: maxEntityLength, description: 'Required with `entityType`.' })),
  public: Type.Optional(Type.Boolean({ description: 'Default: true for a public bucket.' })),
  bucket: Type.Optional(Type.String({ description: 'Default: `public` if `public` is true, else `private`.' })),
  metadata: Type.Optional(Type.String({ description: `A JSON object of at most ${maxMetadataLength} characters.` }))
})
