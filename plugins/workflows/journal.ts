/** The journal of a run: the interface between running steps (runner.ts) and storing their results. */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Engine, SessionOptions } from '../../lib/database/engine.js'
import { isOutage } from '../../lib/database/failures.js'
import { type IdempotencyClaim, requireMark } from '../../lib/database/idempotency-claim.js'
import type { StoredError } from '../../lib/database/workflow-tables.js'
import type { ResultForm } from '../../lib/expressions/result.js'
import type { BoundQuery } from '../../lib/queries/compiled-query.js'

export interface StepOutcome {
  readonly status: 'completed' | 'failed' | 'skipped'
  /** JSON text; null if the step failed or was skipped. */
  readonly result: string | null
  /** The value of `{{steps.<id>.error}}`. */
  readonly error: StoredError | null
  /** The form of a statement's result: the positions of its records. */
  readonly form?: ResultForm | undefined
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
   *
   * @param writes whether the statements write
   */
  database(step: string, run: (text: RunText) => Promise<StepOutcome>, writes: boolean): Promise<StepOutcome>
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

export class SyncJournal implements Journal {
  readonly runId = randomUUID()
  readonly isRepeated = false
  readonly #sent = new Set<string>()

  /** @param claim the idempotency key of the request, which a write marks in its transaction */
  constructor (
    private readonly timed: boolean,
    private readonly engine: Engine,
    private readonly options: SessionOptions,
    private readonly claim?: IdempotencyClaim
  ) {}

  outcome (): undefined {}

  started (): void {}

  /** A step with a timeout is a transaction, so that its writes can be rolled back. */
  database (_step: string, run: (text: RunText) => Promise<StepOutcome>, writes: boolean): Promise<StepOutcome> {
    const { timed, engine, options } = this
    const claim = writes ? this.claim : undefined
    if (!timed && claim === undefined) return run(({ statement, values }) => engine.text(statement, values, options))
    return engine.transaction(options, async (session) => {
      const outcome = await run(({ statement, values }) => session.text(statement, values))
      if (claim !== undefined) requireMark(await session.rows(claim.mark, claim.mark.values))
      return outcome
    })
  }

  finished (): void {}

  wasSent (step: string): boolean {
    return this.#sent.has(step)
  }

  sent (step: string, isSent: boolean): void {
    if (isSent) this.#sent.add(step)
    else this.#sent.delete(step)
  }
}

const pauseMs = 1000

/**
 * Repeats the work while the database is unreachable, or while that causes errors. Rejects with other errors, and if the signal is aborted.
 */
export async function throughOutages<Result> (work: () => Promise<Result>, signal: AbortSignal): Promise<Result> {
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (signal.aborted || !(isOutage(error) || isOutage(Object(error).cause))) throw error
    }
    await sleep(pauseMs, undefined, { signal }).catch(() => {})
  }
}
