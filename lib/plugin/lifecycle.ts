/** Work beside the requests of an app: while it runs, and when it stops. */
import type { FastifyInstance } from 'fastify'
import { repeat } from '../concurrency/repeat.js'
import { type Events, type Topic, topics } from '../database/events.js'
import { everyHour } from '../database/retention.js'
import { failure } from '../errors.js'
import { rootOf } from '../http/guards.js'
import type { Owner } from '../identity/tenant-ref.js'
import { optional } from './define.js'

declare module 'fastify' {
  interface FastifyInstance {
    stopping: Stopping
  }
}

/** `app.stopping`, of the plugin stop. */
export interface Stopping {
  /** Aborted when the app begins to stop. */
  readonly signal: AbortSignal
  /** Aborted when running requests have little time left. What they wait for ends with an error, so that they get a response. */
  readonly ending: AbortSignal
  /** Aborted when the time to stop is over and the app has not closed. Work that still waits, for example for a database, must give up. */
  readonly overdue: AbortSignal
  /** Skips the delay of the stop, now or later. */
  skipDelay(): void
  /** Plugins close after this work too. Call it when the stop begins, see `whenStopping`. */
  until(work: Promise<void>): void
}

/** The options of `Fastify(...)` for the plugin stop: requests in the last moment before the server closes still reach it. */
export const serverOptions = Object.freeze({ return503OnClosing: false })

/**
 * Runs the work once before the app closes: when the stop begins (`signal`), or when running requests must end (`ending`). Without the
 * plugin stop, works of `ending` begin when all works of `signal` have ended.
 */
export function whenStopping (app: FastifyInstance, work: () => Promise<void>, phase: 'signal' | 'ending' = 'signal'): void {
  let ended: Promise<void> | undefined
  const begin = () => {
    if (ended === undefined) {
      ended = work()
      // `onClose` reports the error, which may be seconds later.
      ended.catch(() => {})
    }
    return ended
  }
  const stopping = optional(app, 'stopping')()
  stopping?.[phase].addEventListener('abort', () => stopping.until(begin()))
  if (stopping === null && phase === 'signal') beforeClosing(app, begin)
  // `ending` without the plugin stop, and each work of an app that was never ready.
  app.addHook('preClose', async () => {
    begin()
  })
  app.addHook('onClose', async () => await ended)
}

const beginnings = new WeakMap<FastifyInstance, Array<() => Promise<void>>>()

/** Runs these works together, and only then lets the app begin to close: running jobs can use all plugins until they end. */
function beforeClosing (app: FastifyInstance, begin: () => Promise<void>): void {
  const root = rootOf(app)
  const known = beginnings.get(root)
  if (known !== undefined) {
    known.push(begin)
    return
  }
  const all = [begin]
  beginnings.set(root, all)
  // Fastify closes its server in the last `onClose` hook from before it was ready. Later hooks run before it.
  app.addHook('onReady', async () => {
    root.addHook('onClose', async () => {
      await Promise.allSettled(all.map((each) => each()))
    })
  })
}

/** Not the error `stopping`: a proxy would retry on another server, although this request may already have written. */
export function stoppedBefore (service: string): Error {
  return failure('providerTimeout', { message: `The server stopped before ${service} had responded; try again` })
}

const describing = new WeakSet<FastifyInstance>()

/** The app will only describe its API, so that it changes nothing: work beside requests does not start. Call it before plugins register. */
export function onlyDescribe (app: FastifyInstance): void {
  describing.add(rootOf(app))
}

/** Whether the app works beside its requests: it runs jobs and schedules, sends webhooks and removes expired data. */
export function worksBesideRequests (app: FastifyInstance): boolean {
  return !describing.has(rootOf(app))
}

/** Starts the work when all plugins are ready, and ends it when the app begins to stop. Later work does not start. */
export function runWhenReady (app: FastifyInstance, start: () => (() => Promise<void>) | undefined): void {
  if (!worksBesideRequests(app)) return
  let isStopping = false
  let end: (() => Promise<void>) | undefined
  app.addHook('onReady', async () => {
    // Other plugins may become ready after this hook. The root is used because `ready()` of a child context would throw here, outside any
    // promise.
    rootOf(app).ready().then(() => {
      if (!isStopping) end = start()
    }, () => {})
  })
  whenStopping(app, async () => {
    isStopping = true
    await end?.()
  })
}

/**
 * Runs the work when the app is ready, and again `everyMs` after each end. A failure is logged. Returns a function that ends it and waits
 * for running work.
 */
export function repeatWhenReady (app: FastifyInstance, everyMs: number, work: () => Promise<void>, failed: string): () => Promise<void> {
  let stop = async () => {}
  app.addHook('onReady', async () => {
    if (!worksBesideRequests(app)) return
    stop = repeat(async () => {
      await work().catch((err: unknown) => app.log.warn({ err }, failed))
      return everyMs
    })
  })
  return () => stop()
}

/**
 * Runs the removal every hour until the app closes. A failure is logged, and the next hour tries again.
 *
 * @param rows the rows that are removed, for the log: `old audit entries`
 */
export function sweepHourly (app: FastifyInstance, rows: string, remove: () => Promise<unknown>): void {
  if (!worksBesideRequests(app)) return
  app.addHook(
    'onClose',
    everyHour(remove, (err) => app.log.warn({ err, rows }, 'old rows could not be removed; the next sweep tries again'))
  )
}

const retryMs = 1000

/**
 * Returns a function that runs the work for an argument. After a failure, the work runs again each second until it succeeds or the app
 * closes. For work after a notice, which comes only once.
 */
export function untilSuccess<Value> (app: FastifyInstance, work: (value: Value) => Promise<void>, failed: string): (value: Value) => void {
  const retries = new Map<Value, NodeJS.Timeout>()
  let isClosed = false

  function run (value: Value): void {
    stop(value)
    work(value).catch((err: unknown) => {
      app.log.debug({ err }, failed)
      stop(value)
      if (!isClosed) retries.set(value, setTimeout(run, retryMs, value).unref())
    })
  }

  function stop (value: Value): void {
    clearTimeout(retries.get(value))
    retries.delete(value)
  }

  app.addHook('onClose', async () => {
    isClosed = true
    for (const timer of retries.values()) clearTimeout(timer)
  })
  return (value) => run(value)
}

/** One listener per topic, called with the tenant. `gap` is called when notices may have been lost and cached data may be stale. */
type Listeners = { readonly [Name in Topic]?: (tenant: Owner) => void } & { readonly gap?: () => void }

/** Calls the listeners until the app closes. */
export function listen (app: FastifyInstance, events: Pick<Events, 'on' | 'onGap'>, listeners: Listeners): void {
  const ends = listeners.gap === undefined ? [] : [events.onGap(listeners.gap)]
  for (const topic of topics) {
    const listener = listeners[topic]
    if (listener !== undefined) ends.push(events.on(topic, listener))
  }
  app.addHook('onClose', async () => {
    for (const end of ends) end()
  })
}
