/** The rules of a document's files that routes and workflows need for compilation. */
import type { Files } from '../schema/files.js'

export interface FileRules {
  /** The names of all buckets. */
  readonly buckets: ReadonlySet<string>
  readonly deletedWithRows: boolean
}

/** null if the document disables files. */
export function fileRulesOf ({ enabled = true, buckets = {}, onEntityDelete = 'keep' }: Files): FileRules | null {
  if (!enabled) return null
  return { buckets: new Set(['public', 'private', ...Object.keys(buckets)]), deletedWithRows: onEntityDelete === 'delete' }
}

/** `image/*` does not include SVG: it may contain scripts, and only the uploader declares the type. */
export function admitsType (types: readonly string[], contentType: string): boolean {
  return types.some((type) => matches(type, contentType))
}

function matches (type: string, contentType: string): boolean {
  if (type === contentType) return true
  return type.endsWith('/*') && contentType.startsWith(type.slice(0, -1)) && contentType !== 'image/svg+xml'
}
