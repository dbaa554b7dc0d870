/** Linear-time search for one text in another. The engine's own search is quadratic in its worst case. */
import type { Budget } from './budget.js'

/** Products of lengths up to which the engine's search is cheaper than a table. */
const smallProduct = 2048

/** One step of the budget is two characters of the Knuth-Morris-Pratt search. */
const walkShift = 1
const walkPiece = 4096 // characters

/** The first index of one text in another, or -1. */
export function firstOf (text: string, pattern: string, budget: Budget): number {
  const product = text.length * pattern.length
  if (product > smallProduct) return new Finder(pattern, budget).first(text, 0)
  budget.scan(product)
  return text.indexOf(pattern)
}

/** Finds a text in others, forwards or backwards. */
export class Finder {
  readonly #pattern: string
  readonly #budget: Budget
  #forward: Int32Array | null = null
  #backward: Int32Array | null = null

  constructor (pattern: string, budget: Budget) {
    this.#pattern = pattern
    this.#budget = budget
  }

  /** The first index from `from` on, or -1. */
  first (text: string, from: number): number {
    const pattern = this.#pattern
    const rest = text.length - from
    if (pattern.length > rest) return -1
    if (this.#isCheap(rest)) {
      const index = text.indexOf(pattern, from)
      this.#budget.scan((index === -1 ? rest : index - from) + pattern.length)
      return index
    }
    this.#forward ??= this.#table(1)
    const end = this.#walk(text, from, 1, this.#forward)
    return end === -1 ? -1 : end - pattern.length + 1
  }

  /** The last index up to `from`, or -1. */
  last (text: string, from: number): number {
    const pattern = this.#pattern
    if (pattern.length > text.length) return -1
    const start = Math.min(from + pattern.length, text.length)
    if (this.#isCheap(start)) {
      this.#budget.scan(start + pattern.length)
      return text.lastIndexOf(pattern, from)
    }
    this.#backward ??= this.#table(-1)
    return this.#walk(text, start - 1, -1, this.#backward)
  }

  /** A single character is a memory search; short texts are cheap in any way. */
  #isCheap (length: number): boolean {
    const product = length * this.#pattern.length
    if (product <= smallProduct) {
      this.#budget.scan(product)
      return true
    }
    return this.#pattern.length <= 1
  }

  /** The positions of the pattern's first character, in the direction of the search. */
  #start (step: 1 | -1): number {
    return step === 1 ? 0 : this.#pattern.length - 1
  }

  /** For each character of the pattern, the number of matching ones before it after a mismatch. */
  #table (step: 1 | -1): Int32Array {
    const pattern = this.#pattern
    this.#budget.allocate(4 * pattern.length)
    this.#budget.spend(pattern.length >>> walkShift)
    const start = this.#start(step)
    const table = new Int32Array(pattern.length)
    for (let index = 1, matched = 0; index < pattern.length; index++) {
      const code = pattern.charCodeAt(start + step * index)
      while (matched > 0 && code !== pattern.charCodeAt(start + step * matched)) matched = table[matched - 1]!
      if (code === pattern.charCodeAt(start + step * matched)) matched++
      table[index] = matched
    }
    return table
  }

  /** The position of the last character of the first match in the direction, or -1. */
  #walk (text: string, from: number, step: 1 | -1, table: Int32Array): number {
    const pattern = this.#pattern
    const start = this.#start(step)
    const most = step === 1 ? text.length - from : from + 1
    // Charged in pieces: most searches end long before the end of the text.
    let paid = 0
    for (let position = from, walked = 0, matched = 0; walked < most; position += step, walked++) {
      if (walked === paid) {
        const piece = Math.min(walkPiece, most - paid)
        this.#budget.spend((piece >>> walkShift) + 1)
        paid += piece
      }
      const code = text.charCodeAt(position)
      while (matched > 0 && code !== pattern.charCodeAt(start + step * matched)) matched = table[matched - 1]!
      if (code === pattern.charCodeAt(start + step * matched)) matched++
      if (matched === pattern.length) return position
    }
    return -1
  }
}
