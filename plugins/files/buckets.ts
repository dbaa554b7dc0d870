/** The buckets of a document: the callers that may use them, the files that they accept, and the size limits of a file. */
import { failure, type TenantryError } from '../../lib/errors.js'
import { bytesPerMB, type Plan, type Plans, unlimited } from '../../lib/plans/plans.js'
import type { Bucket as Declared } from '../../lib/schema/files.js'
import { invalidInput } from '../../lib/validation/detail.js'

export interface Bucket {
  readonly name: string
  readonly isPublic: boolean
  readonly permissions: readonly string[]
  /** null if the bucket has no limit of its own. */
  readonly maxBytes: number | null
  /** null: files do not expire. */
  readonly lifetimeMs: number | null
  /** The accepted types. Default: all. */
  readonly types: readonly string[] | undefined
}

export type Buckets = ReturnType<typeof createBuckets>

export function createBuckets (declared: Readonly<Record<string, Declared>>) {
  const sections = { ...declared, public: { ...declared['public'], public: true }, private: { ...declared['private'], public: false } }
  const buckets = new Map(Object.entries(sections).map(([name, section]) => [name, bucketOf(name, section)]))
  const names = [...buckets.keys()].sort()
  return {
    all: [...buckets.values()],
    /** undefined if the document no longer has the bucket. */
    find: (name: string): Bucket | undefined => buckets.get(name),
    /** Throws `validationFailed` for an unknown bucket. */
    get (name: string, path: string): Bucket {
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
    types
  }
}

export interface SizeLimit {
  /** Infinity without a limit. */
  readonly maxBytes: number
  /** The error for a file of at least this many bytes. */
  refusal(bytes: number): TenantryError
}

/** The limit of one file in a route's form. */
export interface PartLimit {
  readonly name: string
  readonly maxBytes: number
}

const maxFileSize = ({ limits }: Plan) => limits.fileStorage.maxFileSizeMB

/** `tier`: the plan of the tenant. `ownBytes`: the limit of the document; null without one. */
export function sizeLimit (plans: Plans, tier: string, ownBytes: number | null, bucket: Bucket | null, part?: PartLimit): SizeLimit {
  const ofPlan = maxFileSize(plans.of(tier))
  const planBytes = ofPlan === unlimited ? Infinity : Math.floor(ofPlan * bytesPerMB)
  const partBytes = part?.maxBytes ?? Infinity
  const others = Math.min(ownBytes ?? Infinity, bucket?.maxBytes ?? Infinity, partBytes)
  return {
    maxBytes: Math.min(planBytes, others),
    refusal (bytes) {
      if (others <= planBytes) {
        return failure('fileTooLarge', { message: `The file is larger than ${others} bytes, the limit of ${ownerOf(others, bucket, part)}` })
      }
      const upgrade = plans.upgrade(tier, maxFileSize, bytes / bytesPerMB)
      const message = `The plan "${plans.of(tier).tier}" includes files of up to ${ofPlan} MB`
      return failure('fileTooLarge', { message, extras: { allowed: false, upgrade } })
    }
  }
}

/** The part of the document that sets the limit, in words. */
function ownerOf (maxBytes: number, bucket: Bucket | null, part: PartLimit | undefined): string {
  if (part?.maxBytes === maxBytes) return `the part "${part.name}"`
  return bucket?.maxBytes === maxBytes ? `the bucket "${bucket.name}"` : 'this server'
}

/** Limits of a whole upload form. Sizes of files are limited as they arrive. */
export const formLimits = {
  fieldNameSize: 100, // bytes
  fieldSize: 32_768, // bytes
  fields: 8,
  files: 2,
  parts: 10,
  headerPairs: 20,
  fileSize: Number.MAX_SAFE_INTEGER
}
