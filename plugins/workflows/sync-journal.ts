/** The journal of a run within a request: it stores nothing. */
import type { TenantRef } from '../../lib/identity/tenant-ref.js'
import type { CompiledWorkflow } from '../../lib/workflows/types.js'
import type { Engine, SessionOptions } from '../../lib/database/engine.js'
import type { BoundQuery } from '../../lib/expressions/types.js'
import type { Journal, RunText, StepOutcome } from './journal.js'
import { randomUUID } from 'node:crypto'

export class SyncJournal implements Journal {
  readonly runId = randomUUID()
  readonly isRepeated = false
  readonly #engine: Engine
  readonly #options: SessionOptions
  readonly #timed: boolean
  readonly #text: RunText
  readonly #sent = new Set<string>()

  constructor (workflow: CompiledWorkflow, engine: Engine, tenant: TenantRef) {
    this.#engine = engine
    this.#options = { tenant }
    this.#timed = workflow.timed
    this.#text = (bound) => engine.text(bound.statement, bound.values, this.#options)
  }

  outcome (): undefined {}

  started (): void {}

  /** A step with a timeout is a transaction, so that its writes can be rolled back. */
  database (_step: string, run: (text: RunText) => Promise<StepOutcome>): Promise<StepOutcome> {
    if (!this.#timed) return run(this.#text)
    return this.#engine.transaction(this.#options, (session) => run((bound: BoundQuery) => session.text(bound.statement, bound.values)))
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
