/** The buckets of a document: the callers that may use them, and the files that they accept. */
import type { Bucket as Declared } from '../../lib/schema/files.js'
import { admitsType } from '../../lib/files/media-types.js'
import { invalidInput } from '../../lib/validation/detail.js'
import { bytesPerMB } from '../../lib/plans/plans.js'

export interface Bucket {
  readonly name: string
  readonly isPublic: boolean
  readonly permissions: readonly string[]
  /** null if the bucket has no limit of its own. */
  readonly maxBytes: number | null
  /** null: files do not expire. */
  readonly lifetimeMs: number | null
  accepts(contentType: string): boolean
}

export interface Buckets {
  readonly all: readonly Bucket[]
  /** undefined if the document no longer has the bucket. */
  find(name: string): Bucket | undefined
  /** Throws `validationFailed` for an unknown bucket. */
  get(name: string, path: string): Bucket
}

export function createBuckets (declared: Readonly<Record<string, Declared>>): Buckets {
  const sections = { ...declared, public: { ...declared['public'], public: true }, private: { ...declared['private'], public: false } }
  const buckets = new Map(Object.entries(sections).map(([name, section]) => [name, bucketOf(name, section)]))
  const names = [...buckets.keys()].sort()
  return {
    all: [...buckets.values()],
    find: (name) => buckets.get(name),
    get (name, path) {
      const bucket = buckets.get(name)
      if (bucket === undefined) throw invalidInput(path, `must be one of ${names.join(', ')}`, 'enum')
      return bucket
    }
  }
}

function bucketOf (name: string, { public: isPublic = false, permissions = [], types, maxFileSizeMB, lifetimeSeconds }: Declared): Bucket {
  return {
    name,
    isPublic,
    permissions,
    maxBytes: maxFileSizeMB === undefined ? null : Math.floor(maxFileSizeMB * bytesPerMB),
    lifetimeMs: lifetimeSeconds === undefined ? null : lifetimeSeconds * 1000,
    accepts: (contentType) => admitsType(types, contentType)
  }
}
