/** Runs a route's calls to other services. */
import type { FastifyBaseLogger } from 'fastify'
import type { Once } from './idempotency.js'
import type { CompiledRoute } from '../compiler/route.js'
import type { Scope } from '../expressions/types.js'
import type { Isolation } from '../database/engine.js'
import type { LastCall, Stores } from './queries.js'
import type { Calls } from './services.js'
import type { ReceivedForm } from './route-call.js'
import { expressionFaults, type PlaceOf } from '../expressions/fault-log.js'
import { createYielder } from '../concurrency/event-loop-yielder.js'
import { tenantOrPlatform } from '../identity/tenant-ref.js'

/** A check within the transaction of a write, before it writes. */
export interface Guard {
  readonly isolation: Isolation | undefined
  /** Rejects with `preconditionFailed` if the current version is a different one. */
  check(stores: Stores): Promise<void>
}

/** What the request needs besides its scope to run queries and calls. */
export interface Caller {
  /** null if the plugin is not registered; no route makes calls then. */
  readonly integrations: () => Calls | null
  readonly log: FastifyBaseLogger
  /** Locations in the document, for the log. */
  readonly placeOf: PlaceOf
  /** Whether the response still has a receiver. Absent if other requests may share it. */
  readonly isWanted?: (() => boolean) | undefined
  /** Set if the request has an idempotency key. */
  readonly once?: Once | undefined
  /** Set if the request has a precondition. */
  readonly guard?: Guard | undefined
  /** The files of a form. They become readable in the transaction of the route's writes. */
  readonly form?: ReceivedForm | null | undefined
  /** Receives the one record that the route created, as JSON text, before the response is sent. */
  readonly created?: ((record: string) => void) | undefined
}

/**
 * Runs the calls in order and puts their results in the scope; the result of a skipped call is null. Resolves with the last call
 * that ran, or null. The first error of `integrations.run`, or `answerTooLarge`, rejects and stops the remaining calls.
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
