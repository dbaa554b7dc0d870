/**
 * Runs the steps of a workflow: in order, with conditions, attempts, switches and parallel groups. The journal decides what is
 * stored, so that runs within a request and durable runs share this code.
 */
import { whenKnown } from '../../lib/cache/async-cache.js'
import type { StoredError } from '../../lib/database/workflow-tables.js'
import { catalogue, failure, isFailure, TenantryError } from '../../lib/errors.js'
import { expressionFaults, type ReportFault } from '../../lib/expressions/condition.js'
import { maxResultBytes, type ResultForm } from '../../lib/expressions/result.js'
import { toText } from '../../lib/expressions/template.js'
import type { Scope } from '../../lib/expressions/types.js'
import { parseResult } from '../../lib/json/parse.js'
import { inTurn, longResult, unrefused } from '../../lib/runtime/computing.js'
import { withDetails } from '../../lib/validation/detail.js'
import type { CompiledStep, CompiledWorkflow, ParallelStep, SwitchStep } from '../../lib/workflows/types.js'
import { Interrupted, type StepOutcome } from './journal.js'
import { type Clock, overdue, type RunContext, systemClock } from './run-context.js'
import { runStep, type StepContext } from './steps.js'

export type { RunContext } from './run-context.js'

const maxParallel = 10 // concurrent steps of a group
const maxBackoffMs = 60_000

export interface WorkflowResult {
  /** The result of the last step of the list that ran, as JSON text; `null` without one. */
  readonly result: string
  /** The positions of its records. */
  readonly form: ResultForm
  /** The scope. Its `steps` has only results that a template reads. */
  readonly scope: Scope
  /** Characters of JSON in these results. */
  readonly length: number
}

/**
 * Runs the workflow and resolves with its result. Rejects with the error of the failed step, with the journal's `Interrupted`,
 * with `databaseUnavailable`, `tenantUnknown`, or with the signal's reason; no step runs after that.
 */
export async function runWorkflow (workflow: CompiledWorkflow, scope: Scope, host: RunContext): Promise<WorkflowResult> {
  const run = new Run(workflow, scope, host)
  return { ...await run.all(), scope: run.scope, length: run.kept }
}

/** The run has used up its turn, and continues in a later one. */
export class TurnOver extends Interrupted {}

/** Whether the steps around a step may be retried. `again`: this is such a retry. Failed inner steps run once more, others do not. */
type Turn = 'only' | 'first' | 'again'

/** The turn of the steps within a step, at its attempt of this number. */
function turnOf ({ attempts }: CompiledStep, tries: number, around: Turn): Turn {
  if (tries > 1 || around === 'again') return 'again'
  return attempts > 1 || around === 'first' ? 'first' : 'only'
}

const skipped: StepOutcome = Object.freeze({ status: 'skipped', result: null, error: null })
const nothing = Object.freeze({})

/**
 * Only the input of a named workflow is in scope, and nothing else of the request. Members are listed, since a copy by `...` takes
 * several times as long.
 */
function scopeOf (
  { definition: { named } }: CompiledWorkflow,
  {
    body, params, query, headers, auth, tenant, secrets, results, files, fullAccess, input, payload, events = false, trace = null,
    depth, ip
  }: Scope,
  steps: Record<string, unknown>
): Scope {
  return {
    body: named ? undefined : body,
    params: named ? nothing : params,
    query: named ? nothing : query,
    headers: named ? nothing : headers,
    auth,
    tenant,
    secrets,
    results,
    files: named ? undefined : files,
    fullAccess,
    input,
    payload: named ? undefined : payload,
    events,
    trace,
    depth,
    ip,
    steps
  }
}

class Run {
  readonly scope: Scope
  readonly #workflow: CompiledWorkflow
  readonly #host: RunContext
  readonly #clock: Clock
  readonly #report: ReportFault
  readonly #around: StepContext
  /** The time after which no further step or attempt begins, from the run or from the current step of its list. */
  #ends: number
  /** The end of this run's turn. */
  readonly #turnEnds: number
  /** Whether a step has ended for the first time. */
  #moved = false
  readonly #steps: Record<string, unknown> = {}
  /** Characters of results, as texts, of the current step of the list, of the steps in it, and of the last result. */
  #texts = 0
  /** Outcomes of steps within steps that may be retried. */
  readonly #ended = new Map<string, StepOutcome>()
  /** Characters of the results that other steps read. */
  kept = 0

  constructor (workflow: CompiledWorkflow, scope: Scope, host: RunContext) {
    this.#workflow = workflow
    this.#host = host
    this.#clock = host.clock ?? systemClock
    this.#ends = this.#after(host.timeoutMs)
    this.#turnEnds = this.#after(host.turnMs)
    this.scope = scopeOf(workflow, scope, this.#steps)
    this.#report = expressionFaults(host.log, scope.tenant?.id ?? null, host.placeOf)
    this.#around = { host, scope: this.scope, clock: this.#clock }
  }

  async all (): Promise<Pick<WorkflowResult, 'result' | 'form'>> {
    let result = 'null'
    let form: ResultForm = 'value'
    for (const step of this.#workflow.steps) {
      if (this.#moved && this.#turnEnds !== Infinity && this.#clock.now() > this.#turnEnds) throw new TurnOver('the run yields to others')
      if (this.#host.stepMs !== undefined) this.#ends = this.#after(this.#host.stepMs)
      const ended = await this.#step(step, Infinity, 'only')
      if (ended.status !== 'skipped') {
        result = ended.result ?? 'null'
        form = ended.form ?? 'value'
      }
      this.#forget(result.length)
    }
    return { result, form }
  }

  /** The texts of a step and of the steps in it are no longer needed, except the result. */
  #forget (kept: number): void {
    this.#ended.clear()
    this.#host.held?.drop(this.#texts - kept)
    this.#texts = kept
  }

  #after (ms: number | undefined): number {
    return ms === undefined ? Infinity : this.#clock.now() + ms
  }

  /**
   * Runs one step; throws its error if that ends the workflow.
   *
   * @param ends the end of the time of the steps around it
   */
  async #step (step: CompiledStep, ends: number, turn: Turn): Promise<StepOutcome> {
    const { journal } = this.#host
    const done = turn === 'again' ? this.#ended.get(step.id) : undefined
    if (done !== undefined) return done
    const before = journal.outcome(step.id)
    if (before !== undefined && !(turn === 'again' && before.status === 'failed')) return this.#taken(step, before, turn)
    const { condition } = step
    if (condition !== null) {
      try {
        const holds = await this.#inTurn(0, () => condition(this.scope, this.#report))
        if (!holds) return this.#finish(step, skipped, turn)
      } catch (error) {
        return this.#finish(step, failedOf(error), turn, error)
      }
    }
    await journal.started(step.id)
    this.#moved = true
    for (let tries = 1; ; tries++) {
      let outcome
      try {
        outcome = await this.#try(step, ends, turnOf(step, tries, turn))
      } catch (error) {
        this.#refuseEnd(error)
        if (tries < step.attempts && !this.#isOver() && !this.#isFinal(step, error)) {
          const { signal } = this.#host
          await this.#clock.sleep(Math.min(step.backoffMs * 2 ** (tries - 1), maxBackoffMs), signal).catch(() => {})
          signal.throwIfAborted()
          continue
        }
        if (isUnexpected(error)) this.#host.log.error({ err: error, step: step.id }, 'a step of a workflow failed unexpectedly')
        return this.#finish(step, failedOf(error), turn, error)
      }
      // The writes of a database step are stored together with its outcome.
      return step.kind === 'database' ? this.#taken(step, outcome, turn) : this.#finish(step, outcome, turn)
    }
  }

  /** Throws errors that do not belong to a step: they end the whole run. */
  #refuseEnd (error: unknown): void {
    this.#host.signal.throwIfAborted()
    if (error instanceof Interrupted || isFailure(error, 'databaseUnavailable') || isFailure(error, 'tenantUnknown')) throw error
  }

  #isFinal ({ kind }: CompiledStep, error: unknown): boolean {
    if (kind !== 'llm' && kind !== 'embeddings' && kind !== 'storage' && kind !== 'realtime') return false
    return this.#host.steps[kind]?.isFinal?.(error) === true
  }

  #isOver (): boolean {
    return this.#ends !== Infinity && this.#clock.now() > this.#ends
  }

  /** A step without I/O, or that fails before it, would otherwise let a hundred others follow at once, and block the event loop. */
  #inTurn<Result> (length: number, work: () => Result): Promise<Result> {
    return inTurn({ worker: this.scope, length, turns: unrefused }, work)
  }

  async #try (step: CompiledStep, around: number, turn: Turn): Promise<StepOutcome> {
    return await this.#inTurn(0, () => whenKnown(this.#host.requireTenant?.(), () => this.#begin(step, around, turn)))
  }

  #begin (step: CompiledStep, around: number, turn: Turn): Promise<StepOutcome> {
    this.#host.signal.throwIfAborted()
    if (this.#isOver()) throw overdue(step.id)
    this.#host.held?.requireRoom()
    const ends = step.timeoutMs === null ? around : Math.min(around, this.#clock.now() + step.timeoutMs)
    step.expansionGuard?.(this.scope, this.kept)
    if (step.kind === 'switch') return this.#switch(step, ends, turn)
    if (step.kind === 'parallel') return this.#parallel(step, ends, turn)
    return runStep(step, ends, turn === 'again', this.#around)
  }

  async #switch (step: SwitchStep, ends: number, turn: Turn): Promise<StepOutcome> {
    const value = step.value(this.scope, this.#report)
    const target = (value === undefined || value === null ? undefined : step.cases.get(toText(value))) ?? step.fallback
    if (target === null) return skipped
    const { status, result, form } = await this.#step(target, ends, turn)
    return status === 'skipped' ? skipped : { status: 'completed', result: result ?? 'null', error: null, form }
  }

  async #parallel ({ steps }: ParallelStep, ends: number, turn: Turn): Promise<StepOutcome> {
    const results: string[] = []
    const errors: { readonly index: number, readonly error: unknown }[] = []
    let next = 0
    let length = 0
    const add = (result: string): string => {
      length += result.length
      if (length > maxResultBytes) throw failure('answerTooLarge')
      return result
    }
    const work = async () => {
      while (next < steps.length && errors.length === 0) {
        const index = next++
        const step = steps[index]!
        try {
          results[index] = add((await this.#step(step, ends, turn)).result ?? 'null')
        } catch (error) {
          errors.push({ index, error })
        }
      }
    }
    // After a failure no further step begins. Running steps are awaited: none may run after the end of the workflow.
    await Promise.all(Array.from({ length: Math.min(steps.length, maxParallel) }, work))
    const first = errors.find(({ error }) => error instanceof Interrupted) ?? errors.toSorted((left, right) => left.index - right.index)[0]
    if (first !== undefined) throw first.error
    return {
      status: 'completed',
      result: `{${steps.map(({ id }, index) => `${JSON.stringify(id)}:${results[index] ?? 'null'}`).join(',')}}`,
      error: null
    }
  }

  async #finish (step: CompiledStep, outcome: StepOutcome, turn: Turn, error?: unknown): Promise<StepOutcome> {
    try {
      await this.#host.journal.finished(step.id, outcome)
    } catch (refusal) {
      // The journal stores no result beyond its limit: the step fails, and is not retried.
      if (!isFailure(refusal, 'answerTooLarge')) throw refusal
      return this.#finish(step, failedOf(refusal), turn, refusal)
    }
    return this.#taken(step, outcome, turn, error)
  }

  /** Makes the result readable for later steps; throws the error of the step if that ends the workflow. */
  async #taken (step: CompiledStep, outcome: StepOutcome, turn: Turn, error?: unknown): Promise<StepOutcome> {
    if (outcome.status === 'failed' && !step.continues) throw error ?? errorOf(outcome.error)
    const isRead = this.#workflow.readSteps.has(step.id)
    this.#count(outcome.result?.length ?? 0, isRead)
    // A write has had its effect, so that the next step is refused instead.
    if (step.kind === 'database' && !step.query.write) this.#host.held?.requireRoom()
    if (turn !== 'only') this.#ended.set(step.id, outcome)
    if (isRead) {
      const result: unknown = await this.#read(outcome.result)
      this.#steps[step.id] = outcome.error === null ? { result } : { result, error: outcome.error }
    }
    return outcome
  }

  #read (text: string | null): unknown {
    if (text === null) return null
    return text.length < longResult ? parseResult(text) : this.#inTurn(text.length, () => parseResult(text))
  }

  #count (length: number, isRead: boolean): void {
    const { held } = this.#host
    held?.text(length)
    this.#texts += length
    if (!isRead) return
    this.kept += length
    if (this.kept > maxResultBytes) throw failure('answerTooLarge')
    held?.value(length)
  }
}

function failedOf (error: unknown): StepOutcome {
  return { status: 'failed', result: null, error: visibleError(error) }
}

/** The part of the error that callers may see. */
export function visibleError (error: unknown): StoredError {
  const { message, code, extras } = error instanceof TenantryError ? error : failure('internal')
  return { message: withDetails(message, extras['details']), code }
}

/** The error is not in the catalogue: it is a fault of this server, for its log. */
function isUnexpected (error: unknown): boolean {
  return !(error instanceof TenantryError) || error.code === catalogue.internal.code
}

/** The error that was stored. */
function errorOf (kept: StoredError | null): TenantryError {
  const entry = Object.values(catalogue).find(({ code }) => code === kept?.code) ?? catalogue.internal
  return new TenantryError(entry, kept === null ? {} : { message: kept.message })
}
