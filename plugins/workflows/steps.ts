/** One attempt of a step: a statement, a call to another service, or a step that another plugin runs. */
import { failure, isFailure } from '../../lib/errors.js'
import { formOf, maxResultBytes } from '../../lib/expressions/result.js'
import type { Scope } from '../../lib/expressions/types.js'
import { tenantOrPlatform } from '../../lib/identity/tenant-ref.js'
import { isRecord } from '../../lib/json/plain-value.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import type { BoundQuery } from '../../lib/queries/compiled-query.js'
import { inTransaction, inTurn } from '../../lib/runtime/computing.js'
import { atInputPointers } from '../../lib/runtime/input-pointers.js'
import type { DatabaseStep, IntegrationStep, RunnerStep } from '../../lib/workflows/types.js'
import type { RunText, StepOutcome } from './journal.js'
import type { RunCaller } from './run-caller.js'
import { type Clock, overdue, type RunContext, within } from './run-context.js'

const defaultTimeoutMs = 600_000 // ms for a step that another plugin runs
const defaultCallMs = 10_000
const noTools: RunCaller = { toolDepth: 0, routeTools: async () => new Map() }

export interface StepContext {
  readonly host: RunContext
  readonly scope: Scope
  readonly clock: Clock
}

/**
 * Runs the step once.
 *
 * @param ends the end of its time, or of the steps around it, in milliseconds since 1970; Infinity without a limit
 * @param again whether this step, or a step around it, was tried before
 */
export function runStep (
  step: DatabaseStep | IntegrationStep | RunnerStep,
  ends: number,
  again: boolean,
  around: StepContext
): Promise<StepOutcome> {
  switch (step.kind) {
    case 'database':
      return runDatabase(step, ends, around)
    case 'integration':
      return runIntegration(step, ends, around)
    case 'llm':
    case 'embeddings':
    case 'storage':
    case 'realtime':
      return runOther(step, ends, again, around)
  }
}

async function runDatabase ({ id, query }: DatabaseStep, ends: number, { host, scope, clock }: StepContext): Promise<StepOutcome> {
  const { journal, cache } = host
  let bound: BoundQuery | null = null
  const run = async (text: RunText): Promise<StepOutcome> => {
    bound = await inTurn({ worker: scope, length: 0, turns: inTransaction }, () => query.bind(scope))
    const result = ends === Infinity ? await text(bound) : await textWithin(ends - clock.now(), id, bound, text)
    if (result === null) throw failure(query.missing)
    // The engine may have been too late to end the statement. Its writes are rolled back.
    if (clock.now() > ends) throw overdue(id)
    return { status: 'completed', result, error: null, form: formOf(bound.resultKind ?? query.resultKind) }
  }
  let outcome
  try {
    outcome = await journal.database(id, run, query.write)
  } catch (error) {
    // The connection was lost, but the commit may have happened.
    if (query.write && isFailure(error, 'databaseUnavailable')) await cache?.invalidate(tenantOrPlatform(scope.tenant), query.writes)
    throw atInputPointers(error, query, bound, `the step "${id}"`)
  }
  if (query.write) await cache?.invalidate(tenantOrPlatform(scope.tenant), query.writes)
  return outcome
}

const limitTime = {
  text: `with before as materialized (select current_setting('statement_timeout') as setting)
select setting from before
where set_config('statement_timeout', case when setting = '0' or extract(epoch from setting::interval) * 1000 > $1::text::numeric then $1::text else setting end, true) is not null`
}
const restoreTime = { text: "select set_config('statement_timeout', $1::text, true)" }

/** Runs the statement in a transaction. PostgreSQL ends it after this number of milliseconds. */
async function textWithin (ms: number, step: string, bound: BoundQuery, text: RunText): Promise<string | null> {
  if (ms < 1) throw overdue(step)
  const before = await text({ statement: limitTime, values: [String(Math.ceil(ms))] })
  let result
  try {
    result = await text(bound)
  } catch (error) {
    throw isFailure(error, 'databaseBusy') ? overdue(step) : error
  }
  await text({ statement: restoreTime, values: [before] })
  return result
}

async function runIntegration ({ id, call }: IntegrationStep, ends: number, { host, scope, clock }: StepContext): Promise<StepOutcome> {
  const { integrations, journal, signal, log } = host
  if (integrations === null) throw new Error('a workflow calls other services, but the app has no plugin for them')
  const result = await integrations.run(call, scope, {
    tenant: tenantOrPlatform(scope.tenant),
    idempotencyKey: keyOf(journal.runId, id),
    // Steps have their own retries.
    retries: false,
    timeoutMs: Math.max(1, ends === Infinity ? defaultCallMs : ends - clock.now()),
    signal,
    log
  })
  return completed(result, scope)
}

async function runOther (
  { id, kind, members }: RunnerStep,
  ends: number,
  again: boolean,
  { host, scope, clock }: StepContext
): Promise<StepOutcome> {
  const { journal, steps, signal, caller = noTools } = host
  const runner = steps[kind]
  if (runner === undefined) throw new Error(`there is no runner for steps of the type ${kind}`)
  const evaluated = members.evaluate(scope)
  const until = ends === Infinity ? clock.now() + defaultTimeoutMs : ends
  const result = await within(until, id, { clock, signal }, (over) =>
    runner.run(isRecord(evaluated) ? evaluated : {}, {
      tenant: tenantOrPlatform(scope.tenant),
      life: scope.tenant?.life,
      user: scope.auth?.sub ?? null,
      toolDepth: caller.toolDepth,
      webhookDepth: scope.depth ?? 0,
      routeTools: caller.routeTools,
      idempotencyKey: keyOf(journal.runId, id),
      isRepeated: again || journal.isRepeated,
      wasSent: journal.wasSent(id),
      note: (isSent) => journal.sent(id, isSent),
      signal: over
    }))
  return completed(result, scope)
}

/** Writes the result at once, since nothing counts a value that would wait for a turn. The time counts for the tenant. */
async function completed (value: unknown, scope: Scope): Promise<StepOutcome> {
  const result = await inTurn({ worker: scope, length: 0, turns: inTransaction }, () => stringifyJson(value) ?? 'null')
  if (result.length > maxResultBytes) throw failure('answerTooLarge')
  return { status: 'completed', result, error: null }
}

function keyOf (run: string, step: string): string {
  return `${run}:${step}`
}
