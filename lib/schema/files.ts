/** Files: their limits, buckets and stores. */
import { Type, type Static } from 'typebox'
import { MapOf, Section } from './annotations.js'

export const longestSignatureSeconds = 604_800 // a week, as in S3

const size = (description: string) => Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 5_242_880, unit: 'MB', description }))

const types = (description: string) =>
  Type.Optional(Type.Array(
    Type.String({
      pattern: '^[a-z]+/(?:\\*|[a-z0-9][a-z0-9.+_-]{0,126})$',
      expected: 'a media type in small letters, such as `image/png` or `image/*`'
    }),
    { minItems: 1, maxItems: 100, description }
  ))

export const Bucket = Section({
  public: Type.Optional(Type.Boolean({ description: 'Anyone may download its files, without a token. Default: false.' })),
  types: types('The media types that it takes; other files are answered 415. Default: all.'),
  maxFileSizeMB: size('The largest file. Default: `files.maxFileSizeMB`.'),
  permissions: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 200 }), {
      minItems: 1,
      maxItems: 20,
      description:
        'The permissions that a caller must hold, all of them, to upload and to download. Downloads from a public bucket need none.'
    })
  ),
  lifetimeSeconds: Type.Optional(
    Type.Integer({ minimum: 60, maximum: 3_153_600_000, unit: 's', description: 'After this time a file is deleted. Default: never.' })
  )
}, { description: 'A group of files with its own rules.' })
export type Bucket = Static<typeof Bucket>

export const Files = Section({
  enabled: Type.Optional(Type.Boolean({ description: 'Turns the endpoints of files on or off. Default: true.' })),
  path: Type.Optional(
    Type.String({
      minLength: 1,
      description:
        'The folder of the files on the local disk. Servers of one database share it. Default: `./files`, made with the first upload.'
    })
  ),
  maxFileSizeMB: size('The largest file, for all tenants; 1 MB is 1,048,576 bytes. Default: what the plan of the tenant allows.'),
  buckets: Type.Optional(
    MapOf(Bucket, { default: {}, description: 'Buckets by name. `public` and `private` always exist, and can have rules here.' })
  ),
  signedUrlSeconds: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: longestSignatureSeconds,
      default: 3600,
      unit: 's',
      description: 'The time that a signed URL is valid, unless the request sets another.'
    })
  ),
  onEntityDelete: Type.Optional(
    Type.Enum(['delete', 'keep'], {
      default: 'keep',
      description:
        'The files of a deleted row: those whose `entityType` is its table and whose `entityId` is its key. A soft delete keeps them.'
    })
  ),
  scan: Type.Optional(Section({
    clamd: Type.String({
      pattern: '^(?:[A-Za-z0-9._-]{1,253}|\\[[0-9A-Fa-f:.]{2,45}\\]):(?:[1-9][0-9]{0,4})$',
      expected: 'an address, `host:port`',
      description: 'The address of clamd, `host:port`.'
    })
  }, { description: 'A scanner for viruses: only administrators can read a file until the scanner found it clean. Default: none.' }))
}, { default: {}, description: 'Files.' })
export type Files = Static<typeof Files>

/** A file of a route's form. */
export const RouteFile = Section({
  maxSizeMB: size('The largest file; of the limits of route, bucket, `files` and plan the smallest holds. Default: the others alone.'),
  types: types('The media types that it may have, found by its content; other files are answered 415. Default: those of its bucket.'),
  required: Type.Optional(Type.Boolean({ description: 'A form without it is a 400. Default: false.' })),
  bucket: Type.Optional(Type.String({ minLength: 1, maxLength: 63, description: 'The bucket that keeps it. Default: `private`.' }))
}, { description: 'A file that the form may contain once.' })

export const StorageProvider = Type.Enum(['local', 's3', 'supabase', 'r2', 'both'], {
  default: 'local',
  description:
    'The store of files: `local` is the disk, `s3` a bucket of S3 or a compatible service, such as `supabase` and `r2`, `both` the disk and a copy in S3.'
})
export type StorageProvider = Static<typeof StorageProvider>

export const S3 = Section({
  endpoint: Type.Optional(
    Type.String({
      pattern: '^https?://',
      expected: 'an address, `https://host`',
      description: "The address of the service. Default: Amazon's, for the region."
    })
  ),
  region: Type.String({ minLength: 1, description: 'The region; `auto` for R2.' }),
  bucket: Type.String({ minLength: 1, description: 'A bucket that exists.' }),
  accessKeyId: Type.String({ minLength: 1, description: 'The id of the access key.' }),
  secretAccessKey: Type.String({ minLength: 1, description: 'The access key: name a setting, as `{{env.S3_SECRET}}`.' }),
  forcePathStyle: Type.Optional(
    Type.Boolean({ description: 'The bucket is the first part of the path instead of a subdomain. Default: true with an `endpoint`.' })
  )
}, { description: 'The S3 storage of files, for every `storageProvider` except `local`.' })
export type S3 = Static<typeof S3>
