/** Bounds the results of templates: `{{body.text}}` may occur a hundred times. Parts with many are measured before they are evaluated. */
import { failure } from '../errors.js'
import { isExact } from '../json/exact-number.js'
import { jsonLength } from '../json/stringify.js'
import { FaultList } from '../schema/faults.js'
import { compileReader, isReplaceable, type Reader, resolvePath, type TemplateContext } from './reference.js'
import { maxResultBytes } from './result.js'
import { hasTemplate, parseTemplate, type PathNode } from './template-parser.js'
import type { Scope } from './types.js'

/** Templates of a part that read the request: with fewer, even copies of the largest body are within the bound. */
const fewCopies = 4

/** Characters of JSON of one copy of any value but the body: at most those of a secret, 64 KB that JSON may escape with six each. */
const largestOther = 393_216

/** The weight of a member besides its text: writing small ones takes long, and objects of a body differ in names, unlike records. */
const memberBytes = { request: 64, results: 16 } as const

/** The highest weight of a byte of JSON: an item of a list has at least two bytes. */
const perByte = { request: 33, results: 9 } as const

/**
 * Throws `answerTooLarge` where the part would copy more than 16 MB (`maxResultBytes`) for this request.
 *
 * @param resultsLength characters of JSON that the results, and those of steps, in the scope had; Infinity if it is unknown
 */
export type ExpansionGuard = (scope: Scope, resultsLength: number) => void

interface Copied {
  readonly read: Reader
  /** The value was created here or by another service, and its length is known. */
  readonly results: boolean
  /** How often the value appears in the part. */
  times: number
}

/** Compiles the check of a part of a route; null if no request can make it copy much. Faults are reported elsewhere. */
export function compileExpansionGuard (part: unknown, context: TemplateContext): ExpansionGuard | null {
  const all = copiedIn(part, context)
  const ofResults = count(all.filter(({ results }) => results))
  const ofRequest = count(all.filter(({ results }) => !results))
  if (ofRequest <= fewCopies && ofResults <= 1) return null
  return (scope, resultsLength) => {
    // Parts that can never exceed the bound are not measured.
    const most = (ofRequest === 0 ? 0 : ofRequest * Math.max(perByte.request * bodyLength(scope), largestOther)) +
      (ofResults === 0 ? 0 : ofResults * perByte.results * resultsLength)
    if (most > maxResultBytes && !fits(all, scope)) throw failure('answerTooLarge')
  }
}

/** Whether the copies of a part are within the bound. Every request is measured: nothing is known of the length of the values. */
export function compileCopyBound (part: unknown, context: TemplateContext): (scope: Scope) => boolean {
  const all = copiedIn(part, context)
  return count(all) <= 1 ? () => true : (scope) => fits(all, scope)
}

function copiedIn (part: unknown, context: TemplateContext): readonly Copied[] {
  if (countTemplates(part) <= 1) return []
  const copied = new Map<string, Copied>()
  collect(part, copied, { ...context, faults: new FaultList() })
  return [...copied.values()]
}

/** Bytes of the received body; Infinity if unknown. */
function bodyLength ({ body, input, headers }: Scope): number {
  // A workflow's input may have been made of many copies of the body.
  if (input !== undefined && input !== null && input !== body) return Infinity
  if (body === undefined || body === null) return 0
  const length = headers['content-length']
  return typeof length === 'string' ? Number(length) : Infinity
}

function count (copied: readonly Copied[]): number {
  return copied.reduce((sum, { times }) => sum + times, 0)
}

/** How many paths the part may read, at most. */
function countTemplates (part: unknown): number {
  if (typeof part === 'string') return hasTemplate(part) ? part.split(/\{\{|\$\{|\|\|/).length - 1 : 0
  if (typeof part !== 'object' || part === null) return 0
  let count = 0
  for (const item of Object.values(part)) count += countTemplates(item)
  return count
}

function collect (part: unknown, copied: Map<string, Copied>, context: TemplateContext): void {
  if (typeof part === 'string') {
    for (const node of hasTemplate(part) ? pathsOf(part) : []) add(node, copied, context)
  } else if (typeof part === 'object' && part !== null) {
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
  const found = resolvePath(node, '', context)
  // A setting is a constant, unless a secret replaces it.
  const isSecret = found?.source === 'env' && isReplaceable(String(found.path[0]), context)
  const reference = isSecret ? { ...found, source: 'secret' as const } : found
  if (reference === undefined || reference.source === 'env' || reference.source === 'now' || reference.source === 'uuid') return
  const key = JSON.stringify([reference.source, ...reference.path])
  const known = copied.get(key)
  if (known !== undefined) known.times++
  else copied.set(key, { read: compileReader(reference), results: reference.source === 'results' || reference.source === 'steps', times: 1 })
}

function fits (copied: readonly Copied[], scope: Scope): boolean {
  const budget = new ExpansionBudget()
  return copied.every(({ read, times, results }) => budget.take(read(scope), times, results ? 'results' : 'request'))
}

/** The length of a text in JSON, or of the digits of a long number. */
function lengthOf (value: unknown): number {
  if (typeof value === 'string') return jsonLength(value)
  return isExact(value) ? String(value).length : 0
}

/** The remaining amount. */
export class ExpansionBudget {
  private left = maxResultBytes

  /** Adds a value that is written so many times; false if it is too large. It stops at the budget. */
  take (value: unknown, times = 1, source: keyof typeof memberBytes = 'results'): boolean {
    if (typeof value === 'string' || isExact(value)) return (this.left -= lengthOf(value) * times) >= 0
    if (typeof value !== 'object' || value === null) return (this.left -= times) >= 0
    // Iterative, since a body may be nested deeper than the stack.
    const open: object[] = [value]
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      const list = Array.isArray(next)
      const members: Readonly<Record<string, unknown>> = Object(next)
      // Creating a list of 50,000 pairs would take longer than scanning those within the budget.
      for (const name in members) {
        const member = members[name]
        this.left -= times * (memberBytes[source] + (list ? 0 : jsonLength(name)) + lengthOf(member))
        if (this.left < 0) return false
        if (typeof member === 'object' && member !== null) open.push(member)
      }
    }
    return true
  }
}
