/** Kinds of steps that other plugins run: language models, embeddings, files and messages to rooms. */
import type { Owner } from '../identity/tenant-ref.js'
import type { ModelTool } from '../models/types.js'
import type { RunnerKind, StepKind } from './types.js'

/** The run of a step, and its time limit. */
export interface StepCall {
  /** Empty for the platform. */
  readonly tenant: Owner
  /** The user who started the run; null without a token. */
  readonly user: string | null
  /** The number of tool calls around the run. */
  readonly toolDepth: number
  /**
   * The tools of routes that the caller of the run may call, of these names. Each call checks the caller again. Rejects if the
   * caller's token or key is no longer valid, or if the tenant is not active.
   */
  routeTools(names: readonly string[]): Promise<ReadonlyMap<string, ModelTool>>
  /** Equal for every try of the step, also after a crash: `<run id>:<step id>`. */
  readonly idempotencyKey: string
  /** The step may have begun before: in another try, or before a crash. */
  readonly isRepeated: boolean
  /** The step has made a call, in this attempt of the run or an earlier one, that may have been charged. */
  readonly wasSent: boolean
  /** Records a call in advance, and afterwards that it was not charged. */
  note(isSent: boolean): void | Promise<void>
  /** Aborts when the try exceeds its time, or the run ends. */
  readonly signal: AbortSignal
}

export interface StepRunner extends StepKind {
  /** Whether a failure ends the tries in spite of the step's `retry`. Default: never. */
  isFinal?(error: unknown): boolean
  /** Runs a step with evaluated templates. Resolves with its result as JSON; rejects with an error of the catalogue for the caller. */
  run(members: Readonly<Record<string, unknown>>, call: StepCall): Promise<unknown>
}

/** The available kinds; a document with other steps is refused. */
export type StepRunners = { readonly [kind in RunnerKind]?: StepRunner }
