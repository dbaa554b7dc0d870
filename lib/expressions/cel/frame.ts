/** The frame that the closures of an expression run on. */
import type { Scope } from '../types.js'
import type { Budget } from './budget.js'

/** One evaluation. */
export interface Frame {
  readonly scope: Scope
  readonly locals: Readonly<Record<string, unknown>>
  readonly budget: Budget
  /** The items that macros are at, by the index that the compiler gave each macro. */
  readonly bound: unknown[]
}

export type Run = (frame: Frame) => unknown

/** A part of an expression, compiled. */
export interface Part {
  readonly run: Run
  /** The steps that it takes at most, without the work of functions and the iterations of macros, which charge their own. */
  readonly steps: number
}
