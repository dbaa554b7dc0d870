/** The size limits of a file. The smallest limit counts. */
import type { Bucket } from './buckets.js'
import { failure, type TenantryError } from '../../lib/errors.js'
import { bytesPerMB, unlimited, type Plan, type Plans } from '../../lib/plans/plans.js'

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

/**
 * @param tier  the plan of the tenant
 * @param ownBytes  the limit of the document; null without one
 * @param part  the part of a route's form that contains the file
 */
export function sizeLimit (plans: Plans, tier: string, ownBytes: number | null, bucket: Bucket | null, part?: PartLimit): SizeLimit {
  const ofPlan = maxFileSize(plans.of(tier))
  const planBytes = ofPlan === unlimited ? Infinity : Math.floor(ofPlan * bytesPerMB)
  const partBytes = part?.maxBytes ?? Infinity
  const others = Math.min(ownBytes ?? Infinity, bucket?.maxBytes ?? Infinity, partBytes)
  return {
    maxBytes: Math.min(planBytes, others),
    refusal (bytes) {
      const owner = partBytes === others
        ? `the part "${part?.name}"`
        : bucket?.maxBytes === others
          ? `the bucket "${bucket.name}"`
          : 'this server'
      if (others <= planBytes) return failure('fileTooLarge', { message: `The file is larger than ${others} bytes, the limit of ${owner}` })
      const upgrade = plans.upgrade(tier, maxFileSize, bytes / bytesPerMB)
      const message = `The plan "${plans.of(tier).tier}" includes files of up to ${ofPlan} MB`
      return failure('fileTooLarge', { message, extras: { allowed: false, upgrade } })
    }
  }
}
