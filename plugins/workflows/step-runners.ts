/** Kinds of steps that other plugins run: language models, embeddings and files. */
import type { RunnerKind, StepKind } from '../../lib/workflows/types.js'

/** Whose step it is, and how long it may run. */
export interface StepCall {
  /** Empty for the platform. */
  readonly tenant: string
  /** Who started the run; null without a token. */
  readonly user: string | null
  /** The same for every try of the step and after a crash: `<run id>:<step id>`. */
  readonly idempotencyKey: string
  /** Aborted when the try has taken its time, or the run ends. */
  readonly signal: AbortSignal
}

export interface StepRunner extends StepKind {
  /**
   * Runs a step whose templates are evaluated. Resolves with its result, which JSON can hold; rejects with an error of the
   * catalogue for what the caller may know.
   */
  run (members: Readonly<Record<string, unknown>>, call: StepCall): Promise<unknown>
}

/** The kinds that this app runs; a document with steps of another is refused. */
export type StepRunners = { readonly [kind in RunnerKind]?: StepRunner }
