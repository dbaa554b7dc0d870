/** Kinds of steps that other plugins run: language models, embeddings, files and messages to rooms. */
import type { Owner } from '../identity/tenant-ref.js'
import type { RunnerKind, StepKind } from './types.js'

/** Whose step it is, and how long it may run. */
export interface StepCall {
  /** Empty for the platform. */
  readonly tenant: Owner
  /** Who started the run; null without a token. */
  readonly user: string | null
  /** The same for every try of the step and after a crash: `<run id>:<step id>`. */
  readonly idempotencyKey: string
  /** The step may have begun before: in another try, or before a crash. */
  readonly isRepeated: boolean
  /** The step has made a call, in this attempt of the run or an earlier one, that may have been charged. */
  readonly wasSent: boolean
  /** Notes before such a call that it is made, and after it that nothing was charged. */
  note(isSent: boolean): void | Promise<void>
  /** Aborted when the try has taken its time, or the run ends. */
  readonly signal: AbortSignal
}

export interface StepRunner extends StepKind {
  /** Whether a failure is not tried again, whatever the step's `retry` says. Default: never. */
  isFinal?(error: unknown): boolean
  /**
   * Runs a step whose templates are evaluated. Resolves with its result, which JSON can hold; rejects with an error of the
   * catalogue for what the caller may know.
   */
  run(members: Readonly<Record<string, unknown>>, call: StepCall): Promise<unknown>
}

/** The kinds that this app runs; a document with steps of another is refused. */
export type StepRunners = { readonly [kind in RunnerKind]?: StepRunner }
