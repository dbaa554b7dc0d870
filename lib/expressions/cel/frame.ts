/** The frame that the closures of an expression run on, and its budget. */
import type { Scope } from '../types.js'

/** One evaluation. */
export interface Frame {
  readonly scope: Scope
  readonly locals: Readonly<Record<string, unknown>>
  readonly budget: Budget
  /** The current items of macros, by the index that the compiler gave each macro. */
  readonly bound: unknown[]
}

export type Run = (frame: Frame) => unknown

/** A compiled part of an expression. */
export interface Part {
  readonly run: Run
  /** The most steps that it takes, without the work of functions and the iterations of macros, which are charged separately. */
  readonly steps: number
}

/** Steps of one evaluation. A step is about 20 ns of work. */
export const maxSteps = 200_000

/** Bytes that one evaluation allocates: 2 a character, 8 a reference. */
export const maxBytes = 4_194_304

/** The engine compares, copies or searches 16 characters in one step. Counters stay integers, which are fast. */
const scanShift = 4

/** The cost of an error: the engine records its stack. */
const errorSteps = 500

const stringBytes = 32 // the header of a string, without its characters

/** An expression, or a set of them with a shared budget, exceeds its bound. */
export class ExpressionLimit extends Error {
  override readonly name = 'ExpressionLimit'
}

/** The budget of an expression. Operators and functions charge their work before doing it, so every evaluation has a bounded cost. */
export class Budget {
  /** The remaining steps and bytes. */
  steps: number
  bytes: number
  private stepsInReserve: number
  private bytesInReserve: number

  /** `evaluations`: the budget lasts for that many full evaluations; `begin()` starts each. */
  constructor (evaluations = 1) {
    this.steps = maxSteps
    this.bytes = maxBytes
    this.stepsInReserve = maxSteps * (evaluations - 1)
    this.bytesInReserve = maxBytes * (evaluations - 1)
  }

  /** Starts the next evaluation, which gets at most one full budget. */
  begin (): this {
    const steps = this.steps + this.stepsInReserve
    const bytes = this.bytes + this.bytesInReserve
    this.steps = Math.min(steps, maxSteps)
    this.bytes = Math.min(bytes, maxBytes)
    this.stepsInReserve = steps - this.steps
    this.bytesInReserve = bytes - this.bytes
    return this
  }

  spend (steps: number): void {
    if ((this.steps -= steps) < 0) throw new ExpressionLimit('the expression takes too many steps')
  }

  /** Native work on so many characters or bytes, with one pass. */
  scan (length: number): void {
    this.spend(1 + (length >>> scanShift))
  }

  allocate (bytes: number): void {
    if ((this.bytes -= bytes) < 0) throw new ExpressionLimit('the expression makes too much data')
  }

  /** A new string, or bytes of that length. */
  allocateText (length: number): void {
    this.allocate(stringBytes + 2 * length)
    this.scan(length)
  }

  /** Charges a caught error; throws it again if the budget is exhausted. */
  absorb (error: unknown): Error {
    if (error instanceof ExpressionLimit || !(error instanceof Error)) throw error
    this.spend(errorSteps)
    return error
  }
}
