/**
 * Reads changes for the watches of this process, from the first watch to the last. One process at a time gives positions to
 * changes, after their commit. Changes are read in batches, so that writes send no notifications. Tenants take turns: each read
 * delivers at most one batch to each.
 */
import type { FastifyBaseLogger } from 'fastify'
import { createYielder } from '../../lib/concurrency/event-loop-yielder.js'
import { createPoller } from '../../lib/database/poller.js'
import { failure } from '../../lib/errors.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { Change, type WatchedTable } from '../../lib/realtime/changes.js'
import { type Begin, Openings } from './openings.js'
import type { Batch, ChangeStore, Lag } from './store.js'
import type { Client, Watch } from './types.js'

const pauseMs = 100 // ms between reads while there are watches: the longest part of the way from a commit to a client
const leastPauseMs = 10 // ms between reads on a slow database
const maxTenants = 100 // of one batch
const sendsOfPiece = 50 // messages, or watches that are compared, before other tenants may have a turn of the event loop

export interface ReaderParts {
  readonly store: ChangeStore
  readonly tableOf: (name: string) => WatchedTable | undefined
  /** Called if changes of all tables may be missed. Must close all watches. */
  readonly lost: () => void
  readonly log: FastifyBaseLogger
}

export type Reader = ReturnType<typeof createReader>

interface Group {
  /** The position of the last change that live watches were sent, or are being sent. */
  cursor: number
  /** Its next changes wait until the current ones are sent. */
  isDelivering: boolean
  /** By table. No set is empty. */
  readonly watches: Map<string, Set<Watch>>
}

export function createReader ({ store, tableOf, lost, log }: ReaderParts) {
  const groups = new Map<Owner, Group>()
  /** The last replay of a client. */
  const replays = new WeakMap<Client, Promise<void>>()
  const openings = new Openings(store)
  /** Tenants with changes to send, and the last position of each. */
  const lags = new Map<Owner, number>()
  const ending = new AbortController()
  /** The stamp of the last head that was read; null while there are no watches. */
  let stamp: number | null = null
  /** The last known one of the database. */
  let epoch: number | null = null
  /** The last tenant whose changes got positions, if more tenants wait. */
  let after = ''
  /** The last poll assigned positions. The next one does so too without asking whether changes wait, since that reads deleted rows. */
  let isGiving = false
  /** Groups that are being sent changes. */
  let delivering = 0
  const poller = createPoller({
    poll,
    signal: ending.signal,
    log,
    messages: {
      failed: 'changes of rows are not sent: the database cannot be reached, is too busy, or is not migrated. Retrying',
      again: 'changes of rows are sent again'
    }
  })

  async function poll (): Promise<number> {
    if (groups.size === 0 && openings.size === 0) {
      stamp = null
      lags.clear()
      return Infinity
    }
    const begun = performance.now()
    try {
      const isBusy = await readNews()
      await deliverAll()
      await openings.settle(enter)
      if (isBusy || lags.size > 0 || openings.size > 0) return delivering > 0 ? leastPauseMs : 0
      return Math.max(leastPauseMs, pauseMs - (performance.now() - begun))
    } catch (error) {
      openings.fail(failure('databaseUnavailable', { cause: error }))
      throw error
    }
  }

  /** Returns whether there is more. */
  async function readNews (): Promise<boolean> {
    stamp ??= await store.latest()
    const found = isGiving ? null : await store.news(stamp)
    let heads = found?.heads ?? []
    let more = found?.more ?? false
    isGiving = found?.waiting ?? true
    let now = found?.epoch
    if (isGiving) {
      const given = await store.assignPositions(after, stamp)
      after = given.last ?? ''
      heads = given.heads
      now = given.epoch
      more ||= given.more
      isGiving = given.count > 0
    }
    if (now !== undefined && epoch !== null && now !== epoch) {
      lost()
      epoch = now
      // The stamps of the earlier primary may be higher.
      stamp = null
      return true
    }
    epoch = now ?? epoch
    for (const { tenant, position } of heads) if (groups.has(tenant)) lags.set(tenant, position)
    stamp = heads.at(-1)?.stamp ?? stamp
    return more
  }

  /** Sends one batch, shared among tenants. Tenants that had their turn go to the end of the queue. */
  async function deliverAll (): Promise<void> {
    const turn: (Lag & { readonly group: Group })[] = []
    const tables = new Set<string>()
    for (const [tenant, head] of lags) {
      const group = groups.get(tenant)
      if (group === undefined || group.cursor >= head) {
        lags.delete(tenant)
        continue
      }
      if (turn.length === maxTenants) break
      if (group.isDelivering) continue
      turn.push({ tenant, head, after: group.cursor, group })
      for (const table of group.watches.keys()) tables.add(table)
    }
    if (turn.length === 0) return
    const batches = await store.readAll(turn, [...tables])
    for (const { tenant, head, group } of turn) {
      lags.delete(tenant)
      const batch = batches.get(tenant)
      if (batch === undefined) continue
      if (batch.until < head) lags.set(tenant, head)
      // Not awaited: a tenant with many watches does not delay the changes of others.
      deliver(tenant, group, batch).catch((err: unknown) => {
        log.error({ err, tenant }, 'a change of a row could not be sent')
        lags.set(tenant, head)
      })
    }
  }

  async function deliver (tenant: Owner, group: Group, { changes, until }: Batch): Promise<void> {
    const yielder = createYielder(tenant)
    let sends = 0
    group.isDelivering = true
    delivering++
    try {
      for (const stored of changes) {
        const watched = tableOf(stored.table)
        const watches = group.watches.get(stored.table)
        // Set before the yields below: a watch that becomes live meanwhile has read this change, or begins after it.
        group.cursor = stored.position
        if (watched === undefined || watches === undefined) continue
        const change = new Change(stored, watched)
        for (const watch of [...watches].filter(({ isLive }) => isLive)) {
          if (++sends % sendsOfPiece === 0 && yielder.shouldYield()) await yielder.yield()
          send(watch, change)
        }
      }
      group.cursor = until
    } finally {
      if (sends >= sendsOfPiece) yielder.done()
      group.isDelivering = false
      delivering--
    }
  }

  function enter (watch: Watch, position: number): number | null {
    const { tenant, table } = watch
    let group = groups.get(tenant)
    if (group === undefined) groups.set(tenant, group = { cursor: position, isDelivering: false, watches: new Map() })
    if (group.cursor < position) return null
    const watches = group.watches.get(table)
    if (watches === undefined) group.watches.set(table, new Set([watch]))
    else watches.add(watch)
    return group.cursor
  }

  /** Sends the changes after the position, then makes the watch live. A client has one replay at a time, to bound its changes in memory. */
  async function replay (watch: Watch, since: number): Promise<void> {
    const own = (replays.get(watch.client) ?? Promise.resolve()).then(() => replayNow(watch, since))
    replays.set(watch.client, own.catch(() => {}))
    await own
  }

  async function replayNow (watch: Watch, since: number): Promise<void> {
    const watched = tableOf(watch.table)
    for (let cursor = since; !watch.isClosed;) {
      const group = groups.get(watch.tenant)
      if (group === undefined || watched === undefined) return
      if (cursor >= group.cursor) {
        watch.isLive = true
        return
      }
      cursor = await replayPart(watch, watched, cursor, group.cursor)
      await watch.client.outlet.drained()
    }
  }

  /**
   * Reads and sends changes. Returns the position of the last one. If much is unsent, it drops the rest: many clients that read slowly
   * would keep theirs in memory.
   */
  async function replayPart (watch: Watch, watched: WatchedTable, after: number, head: number): Promise<number> {
    const yielder = createYielder(watch.tenant)
    const { outlet } = watch.client
    const { changes, until } = await store.read(watch.tenant, watch.table, after, head)
    let last = until
    let sends = 0
    for (const stored of changes) {
      if (++sends % sendsOfPiece === 0 && yielder.shouldYield()) await yielder.yield()
      send(watch, new Change(stored, watched))
      if (!outlet.isBehind) continue
      last = stored.position
      break
    }
    if (sends >= sendsOfPiece) yielder.done()
    return last
  }

  return {
    start: poller.start,
    /** Resolves when no later commit can be missed. `begin` is called at that moment. */
    open (watch: Watch, begin: (at: Begin) => void): Promise<void> {
      const opened = openings.add(watch, begin)
      poller.wake()
      return opened
    },
    replay,
    close (watch: Watch): void {
      watch.isClosed = true
      const { tenant, table } = watch
      const group = groups.get(tenant)
      const watches = group?.watches.get(table)
      if (group === undefined || watches === undefined) return
      watches.delete(watch)
      if (watches.size === 0) group.watches.delete(table)
      if (group.watches.size === 0) groups.delete(tenant)
    },
    async stop (): Promise<void> {
      ending.abort()
      openings.fail(failure('databaseUnavailable'))
      await poller.ended()
    }
  }
}

function send (watch: Watch, change: Change): void {
  if (watch.isClosed || !watch.isAllowed) return
  const action = change.actionFor(watch.conditions)
  if (action !== null) watch.client.outlet.send(change.messageFor(watch.id, action), 'change', change.position)
}
