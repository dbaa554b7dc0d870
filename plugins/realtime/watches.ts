/** The watches of connections: from the request of a client until they end. */
import type { FastifyInstance } from 'fastify'
import { whenKnown } from '../../lib/cache/async-cache.js'
import { isWatchable } from '../../lib/database/migrations/change-triggers.js'
import { failure, retryIn } from '../../lib/errors.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import { checkTenantId } from '../../lib/queries/tenant-types.js'
import type { WatchedTable } from '../../lib/realtime/changes.js'
import type { Realtime as RealtimeSection } from '../../lib/schema/realtime.js'
import type { Usage } from '../usage/index.js'
import { conditionsOf, invalid } from './conditions.js'
import { isAllowed, requireAllowed } from './identity.js'
import type { Reader } from './reader.js'
import type { Recorder, Recording } from './recorder.js'
import type { ChangeStore } from './store.js'
import { type Client, closeCodes, type Outlet, type Watch, type WatchRequest } from './types.js'

export interface WatchesParts {
  readonly app: Pick<FastifyInstance, 'auth' | 'engine' | 'log'>
  readonly usage: () => Usage | null
  readonly store: Pick<ChangeStore, 'withoutTrigger'>
  readonly reader: Reader
  readonly recorder: Recorder
  /** The tables that can be watched, by name: the section `realtime.tables`. */
  readonly listed: NonNullable<RealtimeSection['tables']>
}

export type Watches = ReturnType<typeof createWatches>

const maxWatchesOfClient = 1000

export function createWatches ({ app, usage, store, reader, recorder, listed }: WatchesParts) {
  const { engine, log } = app
  let withoutTrigger: Promise<readonly string[]> | null = null
  let count = 0

  function tableOf (name: string): WatchedTable | undefined {
    const rules = Object.hasOwn(listed, name) ? listed[name] : undefined
    const table = rules === undefined ? undefined : engine.catalogue.tables.get(name)
    if (rules === undefined || table === undefined || !isWatchable(table)) return undefined
    return { table, excluded: new Set(rules.excludeFields), actions: rules.events === undefined ? null : new Set(rules.events) }
  }

  async function requireTrigger (table: string): Promise<void> {
    withoutTrigger ??= store.withoutTrigger(engine.catalogue.schema, Object.keys(listed))
    const lacking = await withoutTrigger.catch((error: unknown) => {
      withoutTrigger = null
      throw error
    })
    if (!lacking.includes(table)) return
    withoutTrigger = null
    throw failure('migrationPending')
  }

  function release (tenant: Owner): void {
    usage()?.give(tenant, 'entities_watched')
  }

  /** Counts the watch for the plan, and has its table recorded. */
  async function record (client: Client, table: string): Promise<Recording> {
    const { tenant } = client.identity
    if (client.watches.size + client.opening >= maxWatchesOfClient) {
      throw failure('tooManyAttempts', { message: `A connection can have at most ${maxWatchesOfClient} watches`, ...retryIn(1) })
    }
    client.opening++
    try {
      await usage()?.take(tenant, 'entities_watched')
      return await recorder.record({ tenant, table }).catch((error: unknown) => {
        release(tenant)
        throw error
      })
    } finally {
      client.opening--
    }
  }

  function add (client: Client, members: Pick<Watch, 'tenant' | 'table' | 'conditions' | 'permissions' | 'recording'>): Watch {
    const id = String(++client.lastWatch)
    const watch: Watch = { ...members, id, client, isAllowed: true, isLive: false, isClosed: false }
    client.watches.set(id, watch)
    count++
    return watch
  }

  /** Sends the `ack`, and a `gap` if changes from `since` on are missing. Resolves with the position after which a replay begins. */
  async function begin (watch: Watch, { ref, since }: WatchRequest): Promise<number> {
    const { id, client, permissions, recording } = watch
    let start = 0
    // The permissions may have changed while the watch waited, when no check found it yet.
    await whenKnown(isAllowed(app, client.identity, permissions), (allowed) => {
      watch.isAllowed = allowed
    })
    await reader.open(watch, ({ position, floor }) => {
      client.outlet.send(stringifyJson({ type: 'ack', ref, watch: id, position }), 'ack', position)
      start = position
      if (since === undefined || since === position) watch.isLive = true
      else if (since > position || since < Math.max(floor, recording.start)) {
        client.outlet.send(stringifyJson({ type: 'gap', watch: id, position }), 'gap', position)
        watch.isLive = true
      } else start = since
    })
    return start
  }

  function end (watch: Watch): void {
    if (watch.isClosed) return
    count--
    reader.close(watch)
    watch.recording.end()
    release(watch.tenant)
  }

  return {
    tableOf,
    /** The watches of this process. */
    get count () {
      return count
    },

    /** Sends the `ack`; then earlier changes from `since`, or a `gap`; then new changes. */
    async open (client: Client, request: WatchRequest, replayed: () => void = () => {}): Promise<void> {
      const { identity } = client
      const { tenant } = identity
      const { table } = request
      await identity.count()
      const watched = tableOf(table)
      if (watched === undefined) throw invalid('/table', 'is not a table that can be watched: `realtime.tables` of the document lists them')
      const permissions = listed[table]?.permissions ?? []
      await requireAllowed(app, identity, permissions)
      checkTenantId(watched.table, tenant)
      await requireTrigger(table)
      const conditions = await conditionsOf(engine, tenant, watched, request)
      const recording = await record(client, table)
      if (client.isClosed) {
        recording.end()
        return release(tenant)
      }
      const watch = add(client, { tenant, table, conditions, permissions, recording })
      const start = await begin(watch, request).catch((error: unknown) => {
        client.watches.delete(watch.id)
        end(watch)
        throw error
      })
      if (watch.isLive) return replayed()
      reader.replay(watch, start).then(replayed, (err: unknown) => {
        log.warn({ err, tenant }, 'earlier changes could not be read: the connection is closed, and its client can reconnect')
        askToReconnect(client.outlet)
      })
    },

    /** Throws `notFound` for an unknown id. */
    close (client: Client, id: string): void {
      const watch = client.watches.get(id)
      if (watch === undefined) throw failure('notFound', { message: 'There is no such watch' })
      client.watches.delete(id)
      end(watch)
    },

    closeAll (client: Client): void {
      for (const watch of client.watches.values()) end(watch)
      client.watches.clear()
    }
  }
}

/** Closes the connection. Its client can reconnect after a second. */
export function askToReconnect (outlet: Outlet): void {
  outlet.close(closeCodes.stopping, stringifyJson({ retryAfterMs: 1000 }))
}
