/** Runs the calls of a route to other services. */
import type { FastifyBaseLogger } from 'fastify'
import type { CompiledRoute } from '../compiler/route.js'
import type { HeldResults } from '../concurrency/result-memory.js'
import { expressionFaults, type PlaceOf } from '../expressions/condition.js'
import type { Scope } from '../expressions/types.js'
import { tenantOrPlatform } from '../identity/tenant-ref.js'
import { yielderOf } from './computing.js'
import type { Calls } from './services.js'

export interface CallParts {
  /** null if the plugin is not registered; no route makes calls then. */
  readonly integrations: () => Calls | null
  readonly log: FastifyBaseLogger
  /** Locations in the document, for the log. */
  readonly placeOf: PlaceOf
  /** Set if results wait for a further query or call, or those of a write for a turn. */
  readonly held?: HeldResults | undefined
}

/** A call that has ended. */
export interface LastCall {
  readonly key: string
  readonly result: unknown
}

/**
 * Runs the calls in order and puts their results in the scope; the result of a skipped call is null. Resolves with the last call
 * that ran, or null. The first error of `integrations.run`, or `answerTooLarge`, rejects and stops the remaining calls.
 */
export async function runIntegrations (
  route: CompiledRoute,
  scope: Scope,
  { integrations, log, placeOf, held }: CallParts
): Promise<LastCall | null> {
  let last: LastCall | null = null
  for (const { key, condition, call, expansionGuard } of route.integrations) {
    if (condition !== null) {
      const yielder = yielderOf(scope)
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
    expansionGuard?.(scope, Infinity)
    held?.requireRoom()
    const result = await runner.run(call, scope, { tenant: tenantOrPlatform(scope.tenant), held, log })
    scope.results[key] = result
    last = { key, result }
  }
  return last
}
