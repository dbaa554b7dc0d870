/** Methods of texts and of lists of texts. */
import { characterAt, isWithoutPairs, unitAfter, unitsAt } from './code-points.js'
import type { Budget } from './frame.js'
import { type Functions, int, isList, NotComputable, refuse, text } from './values.js'

/** For each part of a split text: a reference, and a header with a position in the whole or a copy of a few characters. */
const partBytes = 48

/** Two characters change their case in one step. */
const caseShift = 1

/** The bit in which a small letter of ASCII differs from its capital. */
const caseBit = 0x20
const letters = 26

export const stringMethods: Functions = {
  'contains/2': (budget, value, other) => firstOf(text(value), text(other), budget) !== -1,
  'indexOf/2': (budget, value, other) => characterAt(text(value), firstOf(text(value), text(other), budget), budget),
  'indexOf/3': (budget, value, other, from) =>
    search(text(value), text(other), from, budget, (finder, at) => finder.first(text(value), at)),
  'lastIndexOf/2': (budget, value, other) =>
    characterAt(text(value), new Finder(text(other), budget).last(text(value), text(value).length), budget),
  'lastIndexOf/3': (budget, value, other, from) =>
    search(text(value), text(other), from, budget, (finder, at) => finder.last(text(value), at)),
  'startsWith/2': (budget, value, other) => {
    budget.scan(text(other).length)
    return text(value).startsWith(text(other))
  },
  'endsWith/2': (budget, value, other) => {
    budget.scan(text(other).length)
    return text(value).endsWith(text(other))
  },
  'lowerAscii/1': (budget, value) => changeCase(text(value), budget, 'A', (from) => from.toLowerCase()),
  'upperAscii/1': (budget, value) => changeCase(text(value), budget, 'a', (from) => from.toUpperCase()),
  'trim/1': (budget, value) => {
    budget.allocate(partBytes)
    budget.scan(text(value).length)
    return text(value).trim()
  },
  'substring/2': (budget, value, start) => slice(text(value), int(start), undefined, budget),
  'substring/3': (budget, value, start, end) => slice(text(value), int(start), int(end), budget),
  'split/2': (budget, value, separator) => split(text(value), text(separator), Infinity, budget),
  'split/3': (budget, value, separator, limit) => {
    const most = int(limit)
    if (most === 0n) return []
    return split(text(value), text(separator), most < 0n ? Infinity : Number(most), budget)
  },
  'join/1': (budget, list) => join(list, '', budget),
  'join/2': (budget, list, separator) => join(list, text(separator), budget)
}

/** `find` searches from a unit on. */
function search (value: string, other: string, from: unknown, budget: Budget, find: (finder: Finder, at: number) => number): bigint {
  if (other === '') return int(from)
  const at = within(Number(int(from)), Infinity)
  budget.scan(Math.min(at, value.length))
  const unit = within(unitAfter(value, 0, at, budget), value.length - 1)
  return characterAt(value, find(new Finder(other, budget), unit), budget)
}

function within (index: number, most: number): number {
  if (!(index >= 0 && index <= most)) throw new NotComputable('the index is out of range')
  return index
}

function slice (value: string, start: bigint, end: bigint | undefined, budget: Budget): string {
  budget.allocate(partBytes)
  budget.scan(value.length)
  const from = within(unitAfter(value, 0, within(Number(start), Infinity), budget), value.length)
  if (end === undefined) return value.slice(from)
  return value.slice(from, within(unitAfter(value, from, within(Number(end - start), Infinity), budget), value.length))
}

/** Changes the letters of ASCII from `first` on. `change` may change others too. */
function changeCase (value: string, budget: Budget, first: 'a' | 'A', change: (value: string) => string): string {
  budget.spend(value.length >>> caseShift)
  budget.allocateText(value.length)
  if (Buffer.byteLength(value) === value.length) return change(value)
  budget.allocateText(value.length)
  const units = Buffer.from(value, 'utf16le')
  const least = first.charCodeAt(0)
  for (let low = 0; low < units.length; low += 2) {
    const code = units[low]!
    if (code >= least && code < least + letters && units[low + 1] === 0) units[low] = code ^ caseBit
  }
  return units.toString('utf16le')
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

function splitCharacters (value: string, limit: number, budget: Budget): string[] {
  const count = Math.min(value.length, limit)
  budget.allocate(partBytes * (count + 1))
  budget.spend(count)
  if (!isWithoutPairs(value.slice(0, count))) return splitPairs(value, limit)
  if (count === value.length) return value.split('')
  return [...value.slice(0, count - 1).split(''), value.slice(count - 1)]
}

function splitPairs (value: string, limit: number): string[] {
  const parts: string[] = []
  for (let start = 0; start < value.length;) {
    const end = parts.length + 1 < limit ? start + unitsAt(value, start) : value.length
    parts.push(value.slice(start, end))
    start = end
  }
  return parts
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
