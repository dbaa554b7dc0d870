/** The journal of a run: the seam between running steps (runner.ts) and keeping their results. */
import type { AnswerForm } from '../../lib/expressions/types.js'
import type { BoundQuery } from '../../lib/expressions/types.js'

/** How a step ended. */
export interface StepOutcome {
  readonly status: 'completed' | 'failed' | 'skipped'
  /** JSON text; null where the step failed or was skipped. */
  readonly result: string | null
  readonly error: StepError | null
  /** Of the result of a statement: where its records are. */
  readonly form?: AnswerForm | undefined
}

/** Why a step failed: what `{{steps.<id>.error}}` reads. */
export interface StepError {
  readonly message: string
  /** Of the catalogue of errors, such as `TENANTRY_PROVIDER_FAILED`. */
  readonly code: string
}

/** Runs a bound query and returns its text; null where there was no row. */
export type RunText = (bound: BoundQuery) => Promise<string | null>

/**
 * Reported in this order: `outcome`, and where there is none `started`, then for each try of a database step `database`, and
 * for every step `finished` once, but for a database step that `database` resolved for: that has kept its outcome.
 */
export interface Journal {
  readonly runId: string
  /** An earlier attempt may have begun any step without an outcome. */
  readonly isRepeated: boolean
  /** How the step ended in an earlier attempt of the run. */
  outcome(step: string): StepOutcome | undefined
  started(step: string): void | Promise<void>
  /**
   * Runs the statements of a database step and returns what `run` resolves with. Where the journal keeps outcomes, the
   * statements and the outcome are one transaction: nothing is written where `run` rejects. `run` may be called again
   * after a serialization failure.
   */
  database(step: string, run: (text: RunText) => Promise<StepOutcome>): Promise<StepOutcome>
  finished(step: string, outcome: StepOutcome): void | Promise<void>
  /** The step has made a call, of this attempt or an earlier one, that may have been charged. */
  wasSent(step: string): boolean
  /** Notes before such a call that it is made, and after it that nothing was charged. */
  sent(step: string, isSent: boolean): void | Promise<void>
}

/**
 * The attempt is over, although no step failed: another attempt has the run, the run was canceled, or the connection to the
 * database is lost. The run keeps its state: nothing is retried and no event is sent.
 */
export class Interrupted extends Error {
  override readonly name = 'WorkflowInterrupted'
}
