/** Runs the calls to other services of a route. */
import type { FastifyBaseLogger } from 'fastify'
import type { Once } from './idempotency.js'
import type { CompiledRoute } from '../compiler/route.js'
import type { Scope } from '../expressions/types.js'
import type { Isolation } from '../database/engine.js'
import type { LastCall, Stores } from './answer.js'
import type { Calls, ReceivedForm } from './services.js'
import { expressionFaults, type PlaceOf } from '../expressions/fault-log.js'
import { createYielder } from '../concurrency/event-loop-yielder.js'
import { tenantOrPlatform } from '../identity/tenant-ref.js'

/** What the transaction of a write does before it writes. */
export interface Guard {
  readonly isolation: Isolation | undefined
  /** Rejects with `preconditionFailed` where another version is current. */
  check(stores: Stores): Promise<void>
}

/** What runs the calls of one request. */
export interface Caller {
  /** null where the plugin is not registered, as no route then makes calls. */
  readonly integrations: () => Calls | null
  readonly log: FastifyBaseLogger
  /** Places in the document, for the log. */
  readonly placeOf: PlaceOf
  /** The request holds an idempotency key. */
  readonly once?: Once | undefined
  /** The request has a precondition. */
  readonly guard?: Guard | undefined
  /** Of a form: they become readable with what the route writes. */
  readonly form?: ReceivedForm | null | undefined
  /** Hears of the one record that the route created, as JSON text, before anything is sent. */
  readonly created?: ((record: string) => void) | undefined
}

/**
 * Runs them in order and puts their results in the scope, null for each that is skipped. Resolves with the last one that
 * ran, or null; rejects with what `integrations.run` rejects with, and with `answerTooLarge`, and then runs none after it.
 */
export async function runIntegrations (
  route: CompiledRoute,
  scope: Scope,
  { integrations, log, placeOf }: Caller
): Promise<LastCall | null> {
  let last: LastCall | null = null
  for (const { key, condition, call, copies } of route.integrations) {
    if (condition !== null) {
      const yielder = createYielder(scope.tenant?.id)
      if (yielder.shouldYield()) await yielder.yield()
      const holds = condition(scope, expressionFaults(log, scope.tenant?.id ?? null, placeOf))
      yielder.done()
      if (!holds) {
        scope.results[key] = null
        continue
      }
    }
    const runner = integrations()
    if (runner === null) throw new Error('the plugin integrations is not registered')
    copies?.(scope, Infinity)
    const result = await runner.run(call, scope, { tenant: tenantOrPlatform(scope.tenant), log })
    scope.results[key] = result
    last = { key, result }
  }
  return last
}
