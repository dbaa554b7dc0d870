/** Tenants' regular expressions, in RE2: its time grows with the text only. The size of the patterns and of the texts is bounded here. */
import { createRequire } from 'node:module'
import { LRUCache } from 'lru-cache'
import type { RE2JS } from 're2js'

const maxLength = 500 // characters of a pattern
const maxWeight = 1000 // of a pattern; one of weight 1,000 compiles in some 10 ms
const maxSteps = 1_000_000 // size of the program times characters of the text; request-validator.ts says how many a request has
const maxRecentSize = 200_000 // of all compiled patterns together: about 30 MB
const fixedSize = 60 // of any compiled pattern
const usualLength = 10_000 // characters of a text for a field without `maxLength`

/** Compiling writes out repeats, and Unicode classes have hundreds of ranges. */
const unicodeClassWeight = 50

const notRe2 = "not a regular expression of RE2's syntax, which has neither look-around nor back-references"

const load = createRequire(import.meta.url)

/** Loaded with the first pattern: it is large, and most documents have no pattern. */
function re2js (): typeof import('re2js') {
  return load('re2js')
}

/** A compiled pattern, for texts of at most `maxLength` characters. */
export interface LinearPattern {
  readonly weight: number
  readonly maxLength: number
  test(text: string): boolean
  /** The cost of a test. */
  stepsOn(text: string): number
}

/** Compiles a pattern for texts of at most `longest` characters; without it, of the usual length. Returns the fault of a refused one. */
export function compilePattern (pattern: string, longest?: number): LinearPattern | string {
  if (pattern.length > maxLength) return `a pattern can have at most ${maxLength} characters, but this one has ${pattern.length}`
  const weight = weightOf(pattern)
  if (weight > maxWeight) {
    return `the pattern is too large with its repeats written out: at most ${maxWeight} characters and classes, where a Unicode class such as \\p{L} counts ${unicodeClassWeight}`
  }
  // In RE2 this JavaScript syntax would match as plain text.
  if (/(?<!\\)(?:\\\\)*\\k</.test(pattern)) return `${notRe2}: \`\\k\``
  let size: number
  try {
    size = recent.memo(pattern).programSize()
  } catch (error) {
    if (!(error instanceof re2js().RE2JSSyntaxException)) throw error
    return `${notRe2}: ${error.message.replace(/^error parsing regexp: /, '')}`
  }
  const most = Math.floor(maxSteps / size)
  if (longest !== undefined && longest > most) {
    return `the pattern takes too long on a string of ${longest} characters: set a \`maxLength\` of at most ${most}`
  }
  return {
    weight,
    maxLength: longest ?? Math.min(most, usualLength),
    // Not RE2JS's `test()`, whose automaton grows with the tested texts, up to 8 MB.
    test: (text) => recent.memo(pattern).matcher(text).find(),
    stepsOn: (text) => size * (text.length + 1)
  }
}

/** The patterns in use by all tenants: one takes 10 KB and more, and a document of 1 MB could have 20,000. */
const recent = new LRUCache<string, RE2JS>({
  maxSize: maxRecentSize,
  sizeCalculation: (compiled) => compiled.programSize() + fixedSize,
  memoMethod (pattern) {
    const { RE2JS } = re2js()
    // JavaScript's escapes that differ in RE2 are translated.
    return RE2JS.compile(RE2JS.translateRegExp(pattern))
  }
})

/** For tests: the number of cached patterns. */
export function recentPatterns (): number {
  return recent.size
}

/** The next part of a pattern: a repeat, a Unicode class, an escape, a class in brackets, the start of a group, or a character. */
const nextPart = /^(?:\{\d+(?:,\d*)?\}|\\[pP](?:\{[^}]*\}|.)|\\.|\[(?:\\.|[^\\])[^\]\\]*(?:\\.[^\]\\]*)*\]|\(\?<?[^()]*?[>:)]|[^])/su

/** An estimate of the compiled program's size from the text alone: compiling the largest takes seconds. */
function weightOf (pattern: string): number {
  const groups = [0] // the weight of each group that is open
  let last = 0 // the weight of the part that a repeat would repeat
  const take = (weight: number) => {
    last = weight
    groups[groups.length - 1]! += weight
  }
  for (let position = 0; position < pattern.length;) {
    const rest = pattern.slice(position, position + maxLength)
    const [text] = nextPart.exec(rest) ?? ['']
    position += Math.max(text.length, 1)
    if (/^\{\d/.test(text)) {
      const [least = '0', most] = text.slice(1, -1).split(',')
      const times = Math.max(Number(least), Number(most ?? 0), 1) + (most === '' ? 1 : 0)
      const repeated = last * times
      take(repeated - last)
      last = repeated
    } else if (text.startsWith('(')) {
      if (!text.endsWith(')')) groups.push(1)
    } else if (text === ')') {
      const closed = groups.length > 1 ? groups.pop()! : 0
      take(closed + 1)
    } else {
      take(1 + (text.match(/\\[pP]/g)?.length ?? 0) * unicodeClassWeight + (text.startsWith('[') ? text.length / 4 : 0))
    }
  }
  return Math.ceil(groups.reduce((sum, weight) => sum + weight, 0))
}
