/** Methods of texts and of lists of texts. */
import { lengthOf } from '../../json/plain-value.js'
import type { Budget } from './frame.js'
import { type Functions, int, isList, NotComputable, refuse, text } from './values.js'

/** For each part of a split text: a reference, and a header with a position in the whole or a copy of a few characters. */
const partBytes = 48

/** Two characters change their case in one step: characters beyond Latin need a table. */
const caseShift = 1

/** One step scans eight characters for halves of pairs. */
const pairShift = 3

export const stringMethods: Functions = {
  'contains/2': (budget, value, other) => firstOf(text(value), text(other), budget) !== -1,
  'indexOf/2': (budget, value, other) => BigInt(firstOf(text(value), text(other), budget)),
  'indexOf/3': (budget, value, other, from) =>
    text(other) === '' ? int(from) : BigInt(new Finder(text(other), budget).first(text(value), index(from, text(value).length - 1))),
  'lastIndexOf/2': (budget, value, other) => BigInt(new Finder(text(other), budget).last(text(value), text(value).length)),
  'lastIndexOf/3': (budget, value, other, from) =>
    text(other) === '' ? int(from) : BigInt(new Finder(text(other), budget).last(text(value), index(from, text(value).length - 1))),
  'startsWith/2': (budget, value, other) => {
    budget.scan(text(other).length)
    return text(value).startsWith(text(other))
  },
  'endsWith/2': (budget, value, other) => {
    budget.scan(text(other).length)
    return text(value).endsWith(text(other))
  },
  'lowerAscii/1': (budget, value) => changeCase(text(value), budget, (from) => from.toLowerCase()),
  'upperAscii/1': (budget, value) => changeCase(text(value), budget, (from) => from.toUpperCase()),
  'trim/1': (budget, value) => {
    budget.allocate(partBytes)
    budget.scan(text(value).length)
    return text(value).trim()
  },
  'substring/2': (budget, value, start) => slice(text(value), index(start, text(value).length), text(value).length, budget),
  'substring/3': (budget, value, start, end) =>
    slice(text(value), index(start, text(value).length), index(end, text(value).length), budget),
  'split/2': (budget, value, separator) => split(text(value), text(separator), Infinity, budget),
  'split/3': (budget, value, separator, limit) => {
    const most = int(limit)
    if (most === 0n) return []
    return split(text(value), text(separator), most < 0n ? Infinity : Number(most), budget)
  },
  'join/1': (budget, list) => join(list, '', budget),
  'join/2': (budget, list, separator) => join(list, text(separator), budget)
}

/** Characters (code points) of a text. */
export function sizeOf (value: string, budget: Budget): bigint {
  budget.spend(1 + (value.length >>> pairShift))
  return BigInt(lengthOf(value))
}

function index (value: unknown, most: number): number {
  const at = int(value)
  if (at < 0n || at > most) throw new NotComputable('the index is out of range')
  return Number(at)
}

function slice (value: string, start: number, end: number, budget: Budget): string {
  if (end < start) throw new NotComputable('the index is out of range')
  budget.allocate(partBytes)
  budget.scan(value.length)
  return value.slice(start, end)
}

function changeCase (value: string, budget: Budget, change: (value: string) => string): string {
  budget.spend(value.length >>> caseShift)
  budget.allocateText(value.length)
  const changed = change(value)
  // Some letters become two or three.
  if (changed.length > value.length) budget.allocateText(changed.length - value.length)
  return changed
}

function split (value: string, separator: string, limit: number, budget: Budget): string[] {
  budget.spend(1)
  if (separator === '') return splitCharacters(value, limit, budget)
  const finder = new Finder(separator, budget)
  const parts: string[] = []
  for (let start = 0; ;) {
    budget.allocate(partBytes)
    budget.spend(2)
    const end = parts.length + 1 >= limit ? -1 : finder.first(value, start)
    if (end === -1) {
      parts.push(value.slice(start))
      return parts
    }
    parts.push(value.slice(start, end))
    start = end + separator.length
  }
}

/** Surrogate pairs are split, as in JavaScript. */
function splitCharacters (value: string, limit: number, budget: Budget): string[] {
  const count = Math.min(value.length, limit)
  budget.allocate(partBytes * (count + 1))
  budget.spend(count)
  if (count === value.length) return value.split('')
  return [...value.slice(0, count - 1).split(''), value.slice(count - 1)]
}

function join (list: unknown, separator: string, budget: Budget): string {
  if (!isList(list)) return refuse(list, 'list')
  budget.spend(1 + list.length)
  let length = separator.length * Math.max(0, list.length - 1)
  for (const item of list) length += text(item).length
  budget.allocateText(length)
  return list.join(separator)
}

/** Products of lengths up to which the engine's search is cheaper than a table. */
const smallProduct = 2048

/** One step of the budget is two characters of the Knuth-Morris-Pratt search. */
const walkShift = 1
const walkPiece = 4096 // characters

/** The first index of one text in another, or -1. */
function firstOf (text: string, pattern: string, budget: Budget): number {
  const product = text.length * pattern.length
  if (product > smallProduct) return new Finder(pattern, budget).first(text, 0)
  budget.scan(product)
  return text.indexOf(pattern)
}

/** The pattern in the direction of a search. */
interface Table {
  readonly codes: Uint16Array
  /** For each character, the number of matching ones before it after a mismatch. */
  readonly fallbacks: Int32Array
}

/** Finds a text in others, forwards or backwards. */
class Finder {
  #forward: Table | null = null

  constructor (private readonly pattern: string, private readonly budget: Budget) {}

  /** The first index from `from` on, or -1. */
  first (text: string, from: number): number {
    const pattern = this.pattern
    const rest = text.length - from
    if (pattern.length > rest) return -1
    if (this.#isCheap(rest)) {
      const index = text.indexOf(pattern, from)
      this.budget.scan((index === -1 ? rest : index - from) + pattern.length)
      return index
    }
    this.#forward ??= this.#table(1)
    const end = this.#walk(text, from, 1, this.#forward)
    return end === -1 ? -1 : end - pattern.length + 1
  }

  /** The last index up to `from`, or -1. */
  last (text: string, from: number): number {
    const pattern = this.pattern
    if (pattern.length > text.length) return -1
    const start = Math.min(from + pattern.length, text.length)
    if (this.#isCheap(start)) {
      this.budget.scan(start + pattern.length)
      return text.lastIndexOf(pattern, from)
    }
    return this.#walk(text, start - 1, -1, this.#table(-1))
  }

  /** A single character is a memory search; short texts are cheap in any way. */
  #isCheap (length: number): boolean {
    const product = length * this.pattern.length
    if (product <= smallProduct) {
      this.budget.scan(product)
      return true
    }
    return this.pattern.length <= 1
  }

  #table (step: 1 | -1): Table {
    const pattern = this.pattern
    const { length } = pattern
    this.budget.allocate(6 * length)
    this.budget.spend(length >>> walkShift)
    const codes = new Uint16Array(length)
    const fallbacks = new Int32Array(length)
    for (let index = 0; index < length; index++) codes[index] = pattern.charCodeAt(step === 1 ? index : length - 1 - index)
    for (let index = 1, matched = 0; index < length; index++) {
      const code = codes[index]!
      while (matched > 0 && code !== codes[matched]) matched = fallbacks[matched - 1]!
      if (code === codes[matched]) matched++
      fallbacks[index] = matched
    }
    return { codes, fallbacks }
  }

  /** The position of the last character of the first match in the direction, or -1. */
  #walk (text: string, from: number, step: 1 | -1, { codes, fallbacks }: Table): number {
    const most = step === 1 ? text.length - from : from + 1
    // Charged in pieces: most searches end long before the end of the text.
    for (let walked = 0, matched = 0; walked < most;) {
      const piece = Math.min(walkPiece, most - walked)
      this.budget.spend((piece >>> walkShift) + 1)
      for (const end = walked + piece; walked < end; walked++) {
        const position = from + step * walked
        const code = text.charCodeAt(position)
        while (matched > 0 && code !== codes[matched]) matched = fallbacks[matched - 1]!
        if (code === codes[matched]) matched++
        if (matched === codes.length) return position
      }
    }
    return -1
  }
}
