/** Schemas of the endpoints of files. */
import { Type } from 'typebox'
import { imageQuery } from '../../lib/files/images.js'
import { ListOf, pageQuery } from '../../lib/http/page.js'
import { OrNull, Time } from '../../lib/http/schemas.js'
import { tenantIdPattern } from '../../lib/identity/tenant-ref.js'
import { ClosedObject, Optional } from '../../lib/schema/annotations.js'
import { longestSignatureSeconds } from '../../lib/schema/files.js'
import { named } from '../../lib/validation/named-schema.js'
import { mediaType } from './content-type.js'
import { maxEntityLength, maxMetadataLength, maxNameLength } from './input.js'

export const File = named(
  'File',
  Type.Object({
    id: Type.String({ format: 'uuid' }),
    bucket: Type.String(),
    key: Type.String({ description: 'The path of the file within its bucket.' }),
    name: Type.String({ description: 'The file name sent by the uploader.' }),
    contentType: Type.String({ description: 'The content type detected from the first bytes. The declared type is used only for text.' }),
    size: Type.Integer({ description: 'The size in bytes.' }),
    sha256: Type.String({ description: 'The SHA-256 hash of the content, in hexadecimal.' }),
    public: Type.Boolean({ description: 'True if anyone can download the file because its bucket is public.' }),
    entityType: OrNull(Type.String(), 'The kind of entity that the file belongs to, such as a table.'),
    entityId: OrNull(Type.String(), 'The id of the entity that the file belongs to.'),
    metadata: Type.Object({}, { additionalProperties: true, description: 'The metadata sent by the uploader.' }),
    createdBy: Type.String({ description: 'The `sub` of the uploader.' }),
    createdAt: Type.String({ format: 'date-time' }),
    url: Type.String({ description: 'The path for downloading the file.' }),
    scan: Type.Optional(Type.Object({
      status: Type.Enum(['waiting', 'infected', 'tooLarge'], {
        description: 'The status of the scan. `waiting`: not scanned yet; `tooLarge`: too large for the scanner.'
      }),
      signature: OrNull(Type.String(), 'The name of the malware reported by the scanner.')
    }, { description: 'The result of the scan. Present only for files in quarantine, which only administrators of the tenant can read.' }))
  })
)
export const FileList = ListOf(File)

export const FileParams = Type.Object({ fileId: Type.String({ format: 'uuid' }) })
const entityText = { minLength: 1, maxLength: maxEntityLength, pattern: '^[^\\u0000]*$' }
export const EntityParams = Type.Object({ entityType: Type.String(entityText), entityId: Type.String(entityText) })
export const ListQuery = ClosedObject(pageQuery('Files'))

export const KeyParams = Type.Object({ bucket: Type.String(), '*': Type.String({ description: 'The `key` of the file.' }) })

export const DownloadQuery = ClosedObject({
  inline: Optional.Enum(
    '`1`: the browser displays the file if its type is safe. `0`: the browser saves the file. Default: `0`.',
    ['0', '1']
  ),
  expires: Optional.Integer('The expiry time of a signed URL.', { minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
  signature: Optional.String('The signature of a signed URL.', { maxLength: 100 }),
  ...imageQuery
})

export const SignQuery = ClosedObject({
  expiresIn: Optional.Integer(
    'The number of seconds for which the URL is valid. Default: `files.signedUrlSeconds` of the document, 3600.',
    { minimum: 1, maximum: longestSignatureSeconds }
  )
})
export const SignedUrl = named(
  'SignedUrl',
  Type.Object({
    url: Type.String({ description: 'The URL for the download: a path of this server, or an address of the storage. It needs no token.' }),
    expiresAt: Time()
  })
)

export const Announcement = ClosedObject({
  name: Type.String({ minLength: 1, maxLength: maxNameLength }),
  contentType: Type.String({
    maxLength: 200,
    pattern: mediaType.source,
    expected: 'a media type, such as `text/plain`',
    description: 'The declared content type. It is used only for text; for other files the type is detected from the content.'
  }),
  size: Type.Integer(
    { minimum: 1, maximum: Number.MAX_SAFE_INTEGER, description: 'The size in bytes. The content must have exactly this size.' }
  ),
  bucket: Optional.String('The bucket of the file. Default: `private`.'),
  entityType: Type.Optional(Type.String({ minLength: 1, maxLength: maxEntityLength })),
  entityId: Type.Optional(Type.String({ minLength: 1, maxLength: maxEntityLength })),
  metadata: Type.Optional(
    Type.Object({}, { additionalProperties: true, description: `Metadata of the file, at most ${maxMetadataLength} characters of JSON.` })
  )
})
export const SignedUpload = named(
  'SignedUpload',
  Type.Object({
    id: Type.String({ format: 'uuid', description: 'The id of the file.' }),
    method: Type.Literal('PUT'),
    url: Type.String({ description: 'The URL for the upload: a path of this server, or an address of the storage. It needs no token.' }),
    headers: Type.Record(Type.String(), Type.String(), { description: 'The headers that the upload request must have.' }),
    expiresAt: Time('The time until which the content must be uploaded and confirmed.')
  })
)

export const ContentQuery = ClosedObject({
  tenant: Type.String({ pattern: tenantIdPattern }),
  size: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
  expires: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
  signature: Type.String({ maxLength: 100 })
})

/** The form of an upload, for the documentation. */
export const UploadForm = Type.Object({
  file: Type.String({ format: 'binary' }),
  entityType: Type.Optional(Type.String({ maxLength: maxEntityLength })),
  entityId: Optional.String('The id of the entity that the file belongs to. Required with `entityType`.', { maxLength: maxEntityLength }),
  public: Optional.Boolean('Allows anyone to download the file. Default: true for a public bucket.'),
  bucket: Optional.String('The bucket of the file. Default: `public` if `public` is true, otherwise `private`.'),
  metadata: Optional.String(`Metadata of the file as a JSON object of at most ${maxMetadataLength} characters.`)
})
