/** Files: their limits, buckets and stores. */
import { type Static, Type } from 'typebox'
import { ClosedObject, Optional } from './annotations.js'

export const longestSignatureSeconds = 604_800 // a week, as in S3

const size = (description: string) => Optional.Number(description, { exclusiveMinimum: 0, maximum: 5_242_880, unit: 'MB' })

const types = (description: string) =>
  Optional.Array(
    description,
    Type.String({
      pattern: '^[a-z]+/(?:\\*|[a-z0-9][a-z0-9.+_-]{0,126})$',
      expected: 'a media type in lower case, such as `image/png` or `image/*`'
    }),
    { minItems: 1, maxItems: 100 }
  )

export const Bucket = ClosedObject({
  public: Optional.Boolean('Anyone can download the files of the bucket without a token. Default: false.'),
  types: types('The accepted media types. Other files are rejected with 415. Default: all types.'),
  maxFileSizeMB: size('The maximum size of a file. Default: `files.maxFileSizeMB`.'),
  permissions: Optional.Array(
    'The permissions that a caller needs, all of them, to upload and to download. Downloads from a public bucket need none.',
    Type.String({ minLength: 1, maxLength: 200 }),
    { minItems: 1, maxItems: 20 }
  ),
  lifetimeSeconds: Optional.Integer(
    'The time after which a file is deleted. Default: never.',
    { minimum: 60, maximum: 3_153_600_000, unit: 's' }
  )
}, { description: 'A group of files with its own rules.' })
export type Bucket = Static<typeof Bucket>

export const Files = ClosedObject({
  enabled: Optional.Boolean('Enables the endpoints of files. Default: true.'),
  path: Optional.String(
    'The folder of the files on the local disk. Servers with the same database must share it. Default: `./files`, created by the first upload.',
    { minLength: 1 }
  ),
  maxFileSizeMB: size("The maximum size of a file, for all tenants; 1 MB is 1,048,576 bytes. Default: the limit of the tenant's plan."),
  buckets: Optional.Map('The buckets by name. `public` and `private` always exist, and can have rules here.', Bucket, { default: {} }),
  signedUrlSeconds: Optional.Integer(
    'The default time for which a signed URL is valid.',
    { minimum: 1, maximum: longestSignatureSeconds, default: 3600, unit: 's' }
  ),
  onEntityDelete: Optional.Enum(
    "The handling of a deleted row's files: files whose `entityType` is its table and whose `entityId` is its key. A soft delete keeps them.",
    ['delete', 'keep'],
    { default: 'keep' }
  ),
  scan: Type.Optional(ClosedObject({
    clamd: Type.String({
      pattern: '^(?:[A-Za-z0-9._-]{1,253}|\\[[0-9A-Fa-f:.]{2,45}\\]):(?:[1-9][0-9]{0,4})$',
      expected: 'an address, `host:port`',
      description: 'The address of clamd, `host:port`.'
    })
  }, { description: 'A virus scanner. Until a file is found clean, only administrators can read it. Default: none.' }))
}, { default: {}, description: 'The storage of files.' })
export type Files = Static<typeof Files>

export const RouteFile = ClosedObject({
  maxSizeMB: size(
    'The maximum size of the file. The smallest limit of the route, the bucket, `files` and the plan applies. Default: the other limits.'
  ),
  types: types('The accepted media types, detected from the content. Other files are rejected with 415. Default: the types of the bucket.'),
  required: Optional.Boolean('The file is required: a form without it is rejected with 400. Default: false.'),
  bucket: Optional.String('The bucket for the file. Default: `private`.', { minLength: 1, maxLength: 63 })
}, { description: 'A file that the form can contain once.' })

export const StorageProvider = Type.Enum(['local', 's3', 'supabase', 'r2', 'both'], {
  default: 'local',
  description:
    'The storage of files: `local` is the disk, `s3` a bucket of S3 or a compatible service, such as `supabase` and `r2`, `both` the disk and a copy in S3.'
})
export type StorageProvider = Static<typeof StorageProvider>

export const S3 = ClosedObject({
  endpoint: Optional.String(
    'The URL of the service. Default: Amazon S3 in the region.',
    { pattern: '^https?://', expected: 'a URL such as `https://host`' }
  ),
  region: Type.String({ minLength: 1, description: 'The region; `auto` for R2.' }),
  bucket: Type.String({ minLength: 1, description: 'The name of an existing bucket.' }),
  accessKeyId: Type.String({ minLength: 1, description: 'The id of the access key.' }),
  secretAccessKey: Type.String({ minLength: 1, description: 'The secret access key. Use a setting, such as `{{env.S3_SECRET}}`.' }),
  forcePathStyle: Optional.Boolean('Use the bucket as the first part of the path instead of a subdomain. Default: true with an `endpoint`.')
}, { description: 'The S3 storage of files, for every `storageProvider` except `local`.' })
export type S3 = Static<typeof S3>
