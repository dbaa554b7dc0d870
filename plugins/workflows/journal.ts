/** The journal of a run: the interface between running steps (runner.ts) and storing their results. */
import type { ResultForm } from '../../lib/expressions/types.js'
import type { BoundQuery } from '../../lib/expressions/types.js'

export interface StepOutcome {
  readonly status: 'completed' | 'failed' | 'skipped'
  /** JSON text; null if the step failed or was skipped. */
  readonly result: string | null
  readonly error: StepError | null
  /** Of the result of a statement: the positions of its records. */
  readonly form?: ResultForm | undefined
}

/** Why a step failed: the value of `{{steps.<id>.error}}`. */
export interface StepError {
  readonly message: string
  /** A code of the error catalogue, such as `TENANTRY_PROVIDER_FAILED`. */
  readonly code: string
}

/** Runs a bound query and returns its text; null without a row. */
export type RunText = (bound: BoundQuery) => Promise<string | null>

/**
 * The calls for a step, in order: `outcome`; if there is none, `started`; then `database` for each attempt of a database step; and
 * `finished` once. A resolved `database` has stored its outcome, so that no `finished` follows.
 */
export interface Journal {
  readonly runId: string
  /** Whether an earlier attempt may have begun steps without an outcome. */
  readonly isRepeated: boolean
  /** The result of the step in an earlier attempt of the run. */
  outcome(step: string): StepOutcome | undefined
  started(step: string): void | Promise<void>
  /**
   * Runs the statements of a database step and resolves with the result of `run`. If the journal stores outcomes, statements and outcome
   * are one transaction: nothing is written if `run` rejects. `run` may be called again after a serialization failure.
   */
  database(step: string, run: (text: RunText) => Promise<StepOutcome>): Promise<StepOutcome>
  finished(step: string, outcome: StepOutcome): void | Promise<void>
  /** Whether the step has made a call, in this or an earlier attempt, that may have been charged. */
  wasSent(step: string): boolean
  /** Records such a call before it is made, and clears the record afterwards if it was not charged. */
  sent(step: string, isSent: boolean): void | Promise<void>
}

/**
 * Ends the attempt although no step failed: another attempt holds the run, the run was canceled, or the connection to the database
 * is lost. The run keeps its state; nothing is retried, and no event is sent.
 */
export class Interrupted extends Error {
  override readonly name = 'WorkflowInterrupted'
}
