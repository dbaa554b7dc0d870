/**
 * Sends what is due, for one process: makes deliveries of events, takes those that are due, and writes how each ended.
 * Nothing of an event, an address or a secret is in what it logs.
 */
import type { FastifyBaseLogger } from 'fastify'
import type { Kysely } from 'kysely'
import type { SystemTables } from '../../lib/database/system-tables.js'
import type { HearerBook } from './hearers.js'
import type { Send } from './send.js'
import { randomUUID } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import { createPoller } from '../../lib/database/poller.js'
import { endsWithin } from '../../lib/ends-within.js'
import { fanOut } from './fan-out.js'
import { finish, handBack, nextDue, takeDue, type Attempt } from './store.js'

const maxInAll = 64 // attempts at a time
const maxOfOwner = 8 // of one tenant, or of the platform
const maxEach = 4 // that one look takes of an owner
const idlePauseMs = 5000 // between looks for what no notice tells: what processes had that are gone
const busyPauseMs = 50 // while another process makes deliveries,
const blockedPauseMs = 250 // and while what is due has no place; the end of an attempt wakes it sooner
const handingBackMs = 500

export interface DispatcherParts {
  readonly db: Kysely<SystemTables>
  readonly hearers: HearerBook
  readonly send: Send
  readonly log: FastifyBaseLogger
  /** Milliseconds since 1970. */
  readonly now: () => number
}

export interface Dispatcher {
  start (): void
  /** There may be something to do. */
  wake (): void
  /** Takes no more, and waits for attempts under way until the deadline, of `performance.now()`; then ends them, and hands them back. */
  stop (deadline: number): Promise<void>
}

interface Running {
  readonly attempt: Attempt
  readonly done: Promise<void>
}

export function createDispatcher ({ db, hearers, send, log, now }: DispatcherParts): Dispatcher {
  const holder = randomUUID()
  const running = new Map<string, Running>()
  const ofOwner = new Map<string, number>()
  const draining = new AbortController()
  const ending = new AbortController()
  // Each attempt listens.
  setMaxListeners(maxInAll + 1, ending.signal)
  const polled = {
    signal: draining.signal,
    log,
    told: { failed: 'webhooks are not sent: the database cannot be reached, or is not migrated. It is tried again', again: 'webhooks are sent again' }
  }
  // Side by side: very many events of one tenant keep no delivery waiting.
  const fanning = createPoller({ look: makeDeliveries, ...polled })
  const taking = createPoller({ look: takeDeliveries, ...polled })
  let turn = ''
  let fanTurn = ''

  async function makeDeliveries (): Promise<number> {
    const { outcome, from, refused } = await fanOut(db, hearers, fanTurn, new Date(now()))
    fanTurn = from
    for (const [tenant, deliveries] of refused) log.warn({ tenant, deliveries }, 'webhooks were not sent: too many deliveries wait already')
    if (outcome === 'more') taking.wake()
    return outcome === 'busy' ? busyPauseMs : outcome === 'done' ? idlePauseMs : 0
  }

  async function takeDeliveries (): Promise<number> {
    const next = await nextDue(db)
    const ahead = next === null ? idlePauseMs : next.getTime() - now()
    if (ahead > 0) return Math.min(idlePauseMs, ahead)
    return await take() ? 0 : blockedPauseMs
  }

  /** False where there is no place, or nothing that could be taken. */
  async function take (): Promise<boolean> {
    const room = maxInAll - running.size
    if (room === 0 || draining.signal.aborted) return false
    const full = [...ofOwner].flatMap(([tenant, count]) => count > maxOfOwner - maxEach ? [tenant] : [])
    const from = turn
    const taken = await takeDue(db, { now: new Date(now()), holder, from, full, room, each: maxEach })
    // The order of the database is that of bytes, or close to it: whose turn comes next is a matter of fairness alone.
    const last = taken.reduce<string | undefined>((last, { tenant }) => last === undefined || tenant > last ? tenant : last, undefined)
    turn = last === undefined || taken.length < room ? '' : `${last}\u0001`
    for (const attempt of taken) launch(attempt)
    return taken.length > 0 || from !== ''
  }

  function launch (attempt: Attempt): void {
    const { id, tenant } = attempt
    ofOwner.set(tenant, (ofOwner.get(tenant) ?? 0) + 1)
    const done = make(attempt).finally(() => {
      running.delete(id)
      const left = (ofOwner.get(tenant) ?? 1) - 1
      if (left === 0) ofOwner.delete(tenant)
      else ofOwner.set(tenant, left)
      taking.wake()
    })
    running.set(id, { attempt, done })
  }

  /** Never rejects. What cannot be written down is done again, when this process's hold on it ends. */
  async function make (attempt: Attempt): Promise<void> {
    if (ending.signal.aborted) return
    const told = { delivery: attempt.id, tenant: attempt.tenant, webhook: attempt.endpoint, attempt: attempt.attempts }
    try {
      const ended = await send(attempt, ending.signal)
      await finish(db, attempt.id, holder, ended, new Date(now()))
      if (ended.delivered) log.debug(told, 'a webhook was delivered')
      else if (ended.again === null) log.warn({ ...told, status: ended.status, reason: ended.error }, 'a webhook failed for good')
      else log.info({ ...told, status: ended.status, reason: ended.error }, 'a webhook failed and is tried again')
    } catch (error) {
      if (!ending.signal.aborted) taking.failed(error)
    }
  }

  return {
    wake () {
      fanning.wake()
      taking.wake()
    },
    start () {
      fanning.start()
      taking.start()
    },
    async stop (deadline) {
      draining.abort()
      const finished = async () => {
        await Promise.all([fanning.ended(), taking.ended()])
        await Promise.all([...running.values()].map(({ done }) => done))
      }
      await endsWithin(finished(), deadline - performance.now())
      const left = [...running.keys()]
      ending.abort()
      if (left.length === 0) return
      await endsWithin(handBack(db, left, holder, new Date(now())).catch(() => {}), handingBackMs)
    }
  }
}
