/**
 * The sending part of one process: it creates deliveries of events, takes due ones, and writes their results. Its logs contain
 * nothing of an event, an address or a secret.
 *
 * A line is a queue of deliveries: those of one tenant's webhooks, or those of the platform's webhooks for one tenant's events.
 */
import { randomUUID } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import type { FastifyBaseLogger } from 'fastify'
import type { Kysely } from 'kysely'
import { createWarned } from '../../lib/cache/warned.js'
import { KeyCounts } from '../../lib/concurrency/key-counts.js'
import { settlesWithin } from '../../lib/concurrency/with-timeout.js'
import { createPoller } from '../../lib/database/poller.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { platformRef } from '../../lib/identity/tenant-ref.js'
import { fanOut, type FanOutcome } from './fan-out.js'
import type { Send } from './send.js'
import { type Attempt, finish, handBack, nextDue, takeDue } from './store.js'
import type { SubscriberDirectory } from './subscribers.js'

const maxInAll = 64 // attempts at a time
const maxOfPlatform = 16 // of the platform's webhooks
const maxOfLine = 8 // of a tenant's webhooks, or of the platform's for the events of one tenant
const maxEach = 4 // deliveries of a line per look
const idlePauseMs = 5000 // between looks without a notice: deliveries of processes that have died
/** Milliseconds until deliveries are created again. */
const pauseAfter = { more: 0, busy: 50, done: idlePauseMs } as const satisfies Record<FanOutcome, number>
const blockedPauseMs = 250 // while due deliveries have no free slot; the end of an attempt ends the pause
const handingBackMs = 500

export interface DispatcherParts {
  readonly db: Kysely<SystemTables>
  readonly subscribers: SubscriberDirectory
  readonly send: Send
  readonly log: FastifyBaseLogger
  /** Milliseconds since 1970. */
  readonly now: () => number
}

export type Dispatcher = ReturnType<typeof createDispatcher>

export function createDispatcher ({ db, subscribers, send, log, now }: DispatcherParts) {
  const holder = randomUUID()
  /** The ends of attempts, by id. */
  const running = new Map<string, Promise<void>>()
  // By line.
  const ofTenant = new KeyCounts<string>()
  const ofSource = new KeyCounts<string>()
  const draining = new AbortController()
  const ending = new AbortController()
  const warned = createWarned()
  // Each attempt listens.
  setMaxListeners(maxInAll + 1, ending.signal)
  const polled = {
    signal: draining.signal,
    log,
    messages: {
      failed: 'webhooks are not sent: the database cannot be reached, is too busy, or is not migrated. Retrying',
      again: 'webhooks are sent again'
    }
  }
  // Concurrently: a large number of events of one tenant delays no delivery.
  const fanning = createPoller({ poll: makeDeliveries, ...polled })
  const taking = createPoller({ poll: takeDeliveries, ...polled })
  let tenantTurn = ''
  let sourceTurn = ''
  let fanTurn = ''

  async function makeDeliveries (): Promise<number> {
    const { outcome, from, refused } = await fanOut(db, subscribers, fanTurn, new Date(now()))
    fanTurn = from
    for (const { tenant, source, deliveries } of refused) {
      const ofPlatform = tenant === platformRef
      log[warned.levelOf(tenant, source, 'refused')](
        { tenant: ofPlatform ? source : tenant, ofPlatform, deliveries },
        'webhooks were not sent: too many deliveries of the tenant are waiting'
      )
    }
    if (outcome === 'more') taking.wake()
    return pauseAfter[outcome]
  }

  async function takeDeliveries (): Promise<number> {
    const next = await nextDue(db)
    const ahead = next === null ? idlePauseMs : next.getTime() - now()
    if (ahead > 0) return Math.min(idlePauseMs, ahead)
    return await take() ? 0 : blockedPauseMs
  }

  /** false without a free slot, or if nothing could be taken. */
  async function take (): Promise<boolean> {
    const room = maxInAll - running.size
    if (room === 0 || draining.signal.aborted) return false
    const platform = { from: sourceTurn, full: fullOf(ofSource), room: Math.min(room, maxOfPlatform - ofSource.total) }
    const tenants = { from: tenantTurn, full: fullOf(ofTenant), room }
    const taken = await takeDue(db, { now: new Date(now()), holder, platform, tenants, each: maxEach })
    const sources = taken.filter(({ tenant }) => tenant === platformRef).map(({ source }) => source)
    const owners = taken.filter(({ tenant }) => tenant !== platformRef).map(({ tenant }) => tenant)
    if (platform.room > 0) sourceTurn = sources.length < platform.room ? '' : lineAfter(sources, sourceTurn)
    tenantTurn = taken.length < room ? '' : lineAfter(owners, tenantTurn)
    for (const attempt of taken) launch(attempt)
    return taken.length > 0 || tenants.from !== '' || (platform.room > 0 && platform.from !== '')
  }

  function launch (attempt: Attempt): void {
    const { id, tenant, source } = attempt
    const [counts, line] = tenant === platformRef ? [ofSource, source] : [ofTenant, tenant]
    counts.add(line, 1)
    const done = make(attempt).finally(() => {
      running.delete(id)
      counts.add(line, -1)
      taking.wake()
    })
    running.set(id, done)
  }

  /** Never rejects. If a result cannot be written, the delivery is sent again after the lease ends. */
  async function make (attempt: Attempt): Promise<void> {
    if (ending.signal.aborted) return
    const fields = { delivery: attempt.id, tenant: attempt.tenant, webhook: attempt.endpoint, attempt: attempt.attempts }
    try {
      const ended = await send(attempt, ending.signal)
      await finish(db, attempt.id, holder, ended, new Date(now()))
      if (ended.delivered) log.debug(fields, 'a webhook was delivered')
      else logFailure(attempt, { ...fields, status: ended.status, reason: ended.error }, ended.again === null)
    } catch (error) {
      if (!ending.signal.aborted) taking.failed(error)
    }
  }

  /** A tenant chooses the receiver and the number of its events: repetitions are at debug. */
  function logFailure ({ tenant, endpoint }: Attempt, fields: object, isFinal: boolean): void {
    const isFirst = warned.isFirst(tenant, endpoint, isFinal ? 'failed' : 'retried')
    if (isFinal) log[isFirst ? 'warn' : 'debug'](fields, 'a webhook failed permanently')
    else log[isFirst ? 'info' : 'debug'](fields, 'a webhook failed and will be retried')
  }

  return {
    /** Looks for new events and due deliveries now. */
    wake (): void {
      fanning.wake()
      taking.wake()
    },
    start (): void {
      fanning.start()
      taking.start()
    },
    /** Takes no more, and waits for running attempts until the deadline, of `performance.now()`; then ends them, and hands them back. */
    async stop (deadline: number): Promise<void> {
      draining.abort()
      const finished = async () => {
        await Promise.all([fanning.ended(), taking.ended()])
        await Promise.all(running.values())
      }
      await settlesWithin(finished(), deadline - performance.now())
      const left = [...running.keys()]
      ending.abort()
      if (left.length === 0) return
      await settlesWithin(handBack(db, left, holder, new Date(now())).catch(() => {}), handingBackMs)
    }
  }
}

/** Lines that have no room for `maxEach` more. */
function fullOf (counts: KeyCounts<string>): string[] {
  return Array.from(counts.entries()).flatMap(([line, count]) => count > maxOfLine - maxEach ? [line] : [])
}

/** The start of the next look. The database orders by bytes; another order here would only change whose turn is next. */
function lineAfter (taken: readonly string[], from: string): string {
  const last = [...taken].sort().at(-1)
  return last === undefined ? from : `${last}\u0001`
}
