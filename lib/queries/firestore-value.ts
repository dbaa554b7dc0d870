/** Detects JSON that Firestore cannot store, or would not return unchanged. */
import { isReserved } from '../firestore/paths.js'
import { ExactNumber, fitsInt64 } from '../json/exact-number.js'
import { isRecord } from '../json/plain-value.js'
import { typedNameOf } from '../json/typed-values.js'
import { pointerTo } from '../schema/faults.js'
import type { ErrorDetail } from '../validation/detail.js'
import { maxDetails } from './request-value.js'

const maxDepth = 20 // nested objects and arrays, Firestore's limit
const maxNameBytes = 1500

type Report = (path: readonly (string | number)[], message: string) => void

/** The reasons why Firestore cannot store the fields, with pointers; empty if it can. */
export function unfitFields (fields: Readonly<Record<string, unknown>>, at: string): ErrorDetail[] {
  const details: ErrorDetail[] = []
  lookAtMembers(fields, [], 0, (path, message) => {
    if (details.length < maxDetails) details.push({ path: pointerTo(at, ...path), message, keyword: 'type' })
  })
  return details
}

/** The reason why Firestore cannot store the value; undefined if it can. */
export function unfitFor (value: unknown): string | undefined {
  let found: string | undefined
  visit(value, [], 0, false, (_path, message) => {
    found ??= message
  })
  return found
}

function visit (value: unknown, path: readonly (string | number)[], depth: number, inArray: boolean, report: Report): void {
  if (value instanceof ExactNumber || (typeof value === 'bigint' && !fitsInt64(value))) {
    report(path, 'must be a 64-bit integer or a double, the numbers that Firestore supports')
  } else if (Array.isArray(value)) {
    if (inArray) report(path, 'must not be an array within an array, which Firestore does not support')
    else if (depth === maxDepth) report(path, tooDeep)
    else for (const [index, item] of value.entries()) visit(item, [...path, index], depth + 1, true, report)
  } else if (isRecord(value) && typedNameOf(value) === undefined) {
    if (depth === maxDepth) report(path, tooDeep)
    else lookAtMembers(value, path, depth + 1, report)
  }
}

const tooDeep = `must not be nested more than ${maxDepth} levels deep`

function lookAtMembers (
  record: Readonly<Record<string, unknown>>,
  path: readonly (string | number)[],
  depth: number,
  report: Report
): void {
  for (const name of Object.keys(record)) {
    if (name === '' || isReserved(name) || Buffer.byteLength(name) > maxNameBytes) {
      report([...path, name], 'must have a name of 1 to 1,500 bytes that is not of the form `__name__`')
    } else visit(record[name], [...path, name], depth, false, report)
  }
}
