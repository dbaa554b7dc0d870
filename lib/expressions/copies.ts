/**
 * Bounds of copies by templates: a hundred times `{{body.text}}` makes a hundred copies of the caller's text. A part of a route
 * with many templates is measured before it is evaluated. Nearly all parts have few and are not measured.
 */
import type { Scope, TemplateSource } from './types.js'
import { FaultList } from '../schema/faults.js'
import { failure } from '../errors.js'
import { isExact } from '../json/exact-number.js'
import { isRecord } from '../json/plain-value.js'
import { maxAnswerBytes } from './answer.js'
import { compileReader, type Reader, resolvePath, type TemplateContext } from './reference.js'
import { hasTemplate, parseTemplate, type PathNode } from './template-parser.js'

/** Templates of a part that read the request: as many copies of the largest body by default are never too much. */
const fewCopies = 4

/** Bytes that one copy of anything but the body may have: settings and secrets (64 KB), query string and headers (16 KB). */
const largestOther = 65_536

/**
 * What a member or an item counts besides its text, since writing small ones takes far longer than their bytes say. Of a
 * body it is more: the names differ from object to object, those of records do not.
 */
const memberBytes = { request: 64, results: 16 } as const

/** What a byte of JSON counts at most by that: an item of a list has two bytes at least. */
const perByte = { request: 33, results: 9 } as const

/**
 * Throws `answerTooLarge` where the part would copy more than 16 MB (`maxAnswerBytes`) for this request.
 *
 * @param resultsLength characters of JSON that the results, and those of steps, in the scope had; Infinity if it is unknown
 */
export type CopyCheck = (scope: Scope, resultsLength: number) => void

interface Copied {
  readonly read: Reader
  readonly results: boolean
  /** How often it stands in the part. */
  times: number
}

/** Compiles the check of a part of a route; null where no request can make it copy much. Faults are reported elsewhere. */
export function compileCopies (part: unknown, context: TemplateContext): CopyCheck | null {
  const copied = new Map<string, Copied>()
  collect(part, copied, { ...context, faults: new FaultList() })
  const all = [...copied.values()]
  const ofResults = count(all.filter(({ results }) => results))
  const ofRequest = count(all.filter(({ results }) => !results))
  if (ofRequest <= fewCopies && ofResults <= 1) return null
  return (scope, resultsLength) => {
    // What cannot be too much, whatever is copied, is not measured.
    const most = (ofRequest === 0 ? 0 : ofRequest * Math.max(perByte.request * bodyLength(scope), largestOther)) +
      (ofResults === 0 ? 0 : ofResults * perByte.results * resultsLength)
    if (most > maxAnswerBytes) measure(all, scope)
  }
}

/** Bytes of the body as it came; Infinity where the caller did not say. */
function bodyLength ({ body, input, headers }: Scope): number {
  // What a workflow was given may have been made of many copies of the body.
  if (input !== undefined && input !== null && input !== body) return Infinity
  if (body === undefined || body === null) return 0
  const length = headers['content-length']
  return typeof length === 'string' ? Number(length) : Infinity
}

function count (copied: readonly Copied[]): number {
  return copied.reduce((sum, { times }) => sum + times, 0)
}

function collect (part: unknown, copied: Map<string, Copied>, context: TemplateContext): void {
  if (typeof part === 'string') {
    if (hasTemplate(part)) { for (const node of pathsOf(part)) add(node, copied, context) }
  } else if (Array.isArray(part)) {
    for (const item of part) collect(item, copied, context)
  } else if (isRecord(part)) {
    for (const item of Object.values(part)) collect(item, copied, context)
  }
}

function pathsOf (text: string): PathNode[] {
  try {
    return parseTemplate(text).flatMap((segment) =>
      typeof segment === 'string' ? [] : segment.alternatives.filter((node) => node.kind === 'path')
    )
  } catch {
    return []
  }
}

function add (node: PathNode, copied: Map<string, Copied>, context: TemplateContext): void {
  const reference = resolvePath(node, '', context)
  if (reference === undefined || reference.source === 'env' || reference.source === 'now' || reference.source === 'uuid') return
  const key = JSON.stringify([reference.source, ...reference.path])
  const known = copied.get(key)
  if (known !== undefined) known.times++
  else copied.set(key, { read: compileReader(reference), results: isMade(reference.source), times: 1 })
}

/** What is read was made here or by another service, and its length is known. */
function isMade (source: TemplateSource): boolean {
  return source === 'results' || source === 'steps'
}

function measure (copied: readonly Copied[], scope: Scope): void {
  const budget = new CopyBudget()
  for (const { read, times, results } of copied) {
    if (!budget.take(read(scope), times, results ? 'results' : 'request')) throw failure('answerTooLarge')
  }
}

/** Of a text, or of the digits of a number that has many. */
function lengthOf (value: unknown): number {
  if (typeof value === 'string') return value.length
  return isExact(value) ? String(value).length : 0
}

/** What may still be copied. */
export class CopyBudget {
  private left = maxAnswerBytes

  /** Takes a value that is written so many times; false where it is too large. Looks no further than the budget. */
  take (value: unknown, times = 1, source: keyof typeof memberBytes = 'results'): boolean {
    if (typeof value === 'string' || isExact(value)) return (this.left -= lengthOf(value) * times) >= 0
    if (typeof value !== 'object' || value === null) return (this.left -= times) >= 0
    // No recursion: a body may nest deeper than the stack.
    const open: object[] = [value]
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      const list = Array.isArray(next)
      const members: Readonly<Record<string, unknown>> = Object(next)
      // A list of 50,000 pairs takes longer than looking at those that the budget reaches.
      for (const name in members) {
        const member = members[name]
        this.left -= times * (memberBytes[source] + (list ? 0 : name.length) + lengthOf(member))
        if (this.left < 0) return false
        if (typeof member === 'object' && member !== null) open.push(member)
      }
    }
    return true
  }
}
