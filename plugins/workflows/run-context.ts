/** The parts of the app that a run of a workflow needs. */
import type { FastifyBaseLogger } from 'fastify'
import type { PlaceOf } from '../../lib/expressions/fault-log.js'
import type { CacheStore } from '../../lib/cache/store.js'
import type { Integrations } from '../integrations/integrations.js'
import type { Clock } from './clock.js'
import type { Journal } from './journal.js'
import type { StepRunners } from '../../lib/workflows/step-runners.js'

export interface RunContext {
  readonly journal: Journal
  /** Called for writes of database steps; null without a cache. */
  readonly cache: CacheStore | null
  /** null where the app has none, as no workflow then has such steps. */
  readonly integrations: Integrations | null
  readonly steps: StepRunners
  /** Aborted when no caller waits for the run any more, with the error that the run ends with. */
  readonly signal: AbortSignal
  readonly log: FastifyBaseLogger
  /** Places in the document, for the log. Default: the places within the workflow. */
  readonly placeOf?: PlaceOf | undefined
  /** Default: the system's. */
  readonly clock?: Clock | undefined
  /** Milliseconds after which no further step or try begins; the run then rejects with `providerTimeout`. Default: as long as it takes. */
  readonly timeoutMs?: number | undefined
  /**
   * Milliseconds of one step of the list, with those in it and its tries, after which nothing more of it begins: it has failed
   * with `providerTimeout`. Default: as long as it takes.
   */
  readonly stepMs?: number | undefined
  /** Milliseconds after which the run rejects with `TurnOver` before its next step, where it has done one. Default: as long as it takes. */
  readonly turnMs?: number | undefined
}
