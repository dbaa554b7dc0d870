/** The rules of a document's files that routes and workflows need before they run. */
import type { Files } from '../schema/files.js'

export interface FileRules {
  /** The names of all buckets. */
  readonly buckets: ReadonlySet<string>
  /** A row that is deleted takes its files with it. */
  readonly deletedWithRows: boolean
}

/** null where the document turns files off. */
export function fileRulesOf ({ enabled = true, buckets = {}, onEntityDelete = 'keep' }: Files, isOff: boolean): FileRules | null {
  if (!enabled || isOff) return null
  return { buckets: new Set(['public', 'private', ...Object.keys(buckets)]), deletedWithRows: onEntityDelete === 'delete' }
}
