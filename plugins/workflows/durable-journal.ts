/** The journal of an asynchronous run: the result of each step is in the database before the next one begins. */
import type { Engine, Session, Statement } from '../../lib/database/engine.js'
import { failure } from '../../lib/errors.js'
import { storedExcess } from '../../lib/json/bounds.js'
import { Interrupted, type Journal, type StepOutcome, throughOutages } from './journal.js'
import { beginStep, type EarlierSteps, endStep, type HeldRun, sendStep, storedError } from './store.js'

const maxResultBytes = 1_048_576 // of one step, as JSON
const maxKeptBytes = 16 * 1_048_576 // of all steps of a run

/**
 * Rejects with `answerTooLarge`, and writes nothing, for a result that is larger than 1 MiB, has too many different keys, or
 * would exceed the run's total of 16 MiB.
 *
 * @param databaseSteps the steps whose statements the journal runs: their start is not written separately
 * @param signal aborts when the attempt is over
 */
export function createDurableJournal (
  engine: Engine,
  { tenant, id, attempt }: HeldRun,
  { outcomes, sent }: EarlierSteps,
  databaseSteps: ReadonlySet<string>,
  signal: AbortSignal
): Journal {
  const options = { tenant }
  const calls = new Set(sent)
  let kept = 0
  for (const { result } of outcomes.values()) kept += sizeOf(result)

  function requireSize ({ result }: StepOutcome): void {
    const size = sizeOf(result)
    if (size > maxResultBytes) {
      throw failure('answerTooLarge', {
        message: `The result of a step can have at most ${maxResultBytes} bytes as JSON: this result has ${size}`
      })
    }
    const excess = result === null ? null : storedExcess(result)
    if (excess !== null) throw failure('answerTooLarge', { message: `The JSON of a step's result ${excess}` })
    if (kept + size > maxKeptBytes) {
      throw failure('answerTooLarge', { message: `The results of all steps of a run can have at most ${maxKeptBytes} bytes as JSON` })
    }
  }

  async function write (statement: Statement, values: readonly unknown[], run: Session['text']): Promise<void> {
    let row
    try {
      row = await run(statement, [tenant, id, attempt, ...values])
    } catch (error) {
      throw new Interrupted('the database rejects the state of the run', { cause: error })
    }
    if (row === null) throw new Interrupted('the run belongs to another attempt')
  }

  const alone: Session['text'] = (statement, values) => engine.text(statement, values, options)

  return {
    runId: id,
    isRepeated: attempt > 1,
    outcome: (step) => outcomes.get(step),

    started (step) {
      if (!databaseSteps.has(step)) return write(beginStep, [step], alone)
    },

    async database (step, run) {
      let isReached = false
      try {
        const outcome = await engine.transaction(options, async (session) => {
          isReached = true
          const outcome = await run((bound) => session.text(bound.statement, bound.values))
          requireSize(outcome)
          await write(endStep, valuesOf(step, outcome), (statement, values) => session.text(statement, values))
          return outcome
        })
        kept += sizeOf(outcome.result)
        return outcome
      } catch (error) {
        // If the connection was lost afterwards, the commit may have happened. The next attempt reads it.
        if (!isReached) throw new Interrupted('the connection to the database was lost', { cause: error })
        throw error
      }
    },

    async finished (step, outcome) {
      requireSize(outcome)
      await throughOutages(() => write(endStep, valuesOf(step, outcome), alone), signal)
      kept += sizeOf(outcome.result)
    },

    wasSent: (step) => calls.has(step),

    async sent (step, isSent) {
      await write(sendStep, [step, isSent], alone)
      if (isSent) calls.add(step)
      else calls.delete(step)
    }
  }
}

function valuesOf (step: string, { status, result, error }: StepOutcome): unknown[] {
  return [step, status, result, error === null ? null : JSON.stringify(storedError(error))]
}

function sizeOf (result: string | null): number {
  return result === null ? 0 : Buffer.byteLength(result)
}
