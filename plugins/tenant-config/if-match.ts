/** The precondition of a save (RFC 9110, 13.1.1). */
import { failure } from '../../lib/errors.js'

/** A proxy that compresses weakens what it passes on; the version is the same. */
const entityTag = /^(?:W\/)?"(\d{1,9})"$/

/** Versions of which one must be in force; `*` is any. */
export type Precondition = readonly number[] | '*'

/** undefined where there is no header. */
export function parseIfMatch (header: string | undefined): Precondition | undefined {
  if (header === undefined) return undefined
  if (header.trim() === '*') return '*'
  return header.split(',').map((text) => {
    const version = entityTag.exec(text.trim())?.[1]
    if (version === undefined) throw failure('badRequest', { message: 'If-Match names a version as ETag gives it: "3"' })
    return Number(version)
  })
}
