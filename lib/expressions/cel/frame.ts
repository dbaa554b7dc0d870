/** The frame that the closures of an expression run on. */
import type { Scope } from '../types.js'
import type { Budget } from './budget.js'

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
