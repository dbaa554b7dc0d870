/** The core of realtime: connections, their watches and their rooms, independent of the transport. */
import { randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { isWatchable } from '../../lib/database/migrations/change-triggers.js'
import { failure, retryIn, TenantryError } from '../../lib/errors.js'
import { type Owner, platformRef } from '../../lib/identity/tenant-ref.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import type { WatchedTable } from '../../lib/realtime/changes.js'
import { maxStateBytes } from '../../lib/realtime/messages.js'
import { createRoomRules } from '../../lib/realtime/rooms.js'
import type { Realtime as RealtimeSection } from '../../lib/schema/realtime.js'
import { requirePermissions } from '../auth/access.js'
import type { Gauge, Usage } from '../usage/index.js'
import { conditionsOf, invalid } from './conditions.js'
import { requireTenant } from './identity.js'
import type { Reader } from './reader.js'
import type { TenantTable } from './recorded-store.js'
import type { Recorder, Recording } from './recorder.js'
import type { Rooms } from './rooms.js'
import type { ChangeStore } from './store.js'
import { type Client, closeCodes, type Identity, type Outlet, type Watch, type WatchRequest } from './types.js'

export interface CoreParts {
  readonly app: Pick<FastifyInstance, 'auth' | 'engine' | 'tenants' | 'log'>
  readonly usage: () => Usage | null
  readonly store: ChangeStore
  readonly reader: Reader
  readonly recorder: Recorder
  readonly rooms: Rooms
  readonly section: RealtimeSection
}

export type Core = ReturnType<typeof createCore>

const maxRoomsOfClient = 100
const maxWatchesOfClient = 1000

export function createCore ({ app, usage, store, reader, recorder, rooms, section }: CoreParts) {
  const { engine, tenants, log } = app
  const clients = new Set<Client>()
  const expiring = new WeakSet<Client>()
  const ruleOf = createRoomRules(section.rooms)
  const listed = section.tables ?? {}
  let withoutTrigger: Promise<readonly string[]> | null = null
  let openWatches = 0
  let isStopping = false

  function tableOf (name: string): WatchedTable | undefined {
    const rules = Object.hasOwn(listed, name) ? listed[name] : undefined
    const table = rules === undefined ? undefined : engine.catalogue.tables.get(name)
    if (rules === undefined || table === undefined || !isWatchable(table)) return undefined
    return { table, excluded: new Set(rules.excludeFields), actions: rules.events === undefined ? null : new Set(rules.events) }
  }

  function allows ({ claims, tenant }: Identity, permissions: readonly string[]): void | Promise<void> {
    return requirePermissions({ auth: claims, tenant: { id: tenant }, server: app }, permissions)
  }

  async function hasAll (identity: Identity, permissions: readonly string[]): Promise<boolean> {
    try {
      await allows(identity, permissions)
      return true
    } catch (error) {
      if (error instanceof TenantryError && error.statusCode < 500) return false
      throw error
    }
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

  async function open (outlet: Outlet, identity: Identity): Promise<Client> {
    await usage()?.take(identity.tenant, 'connections')
    if (isStopping) {
      release(identity.tenant, 'connections')
      throw failure('stopping', { headers: { connection: 'close', 'retry-after': '1' } })
    }
    const client: Client = {
      id: randomUUID(),
      outlet,
      identity,
      isClosed: false,
      watches: new Map(),
      opening: 0,
      lastWatch: 0,
      rooms: new Set()
    }
    clients.add(client)
    // A suspension closes the connections of `clients`. One that began before is found here.
    await requireTenant(tenants, identity).catch((error: unknown) => {
      close(client)
      throw error
    })
    outlet.send(stringifyJson({ type: 'ready', connectionId: client.id }), 'ready')
    return client
  }

  function close (client: Client): void {
    if (client.isClosed) return
    client.isClosed = true
    clients.delete(client)
    const { tenant } = client.identity
    for (const watch of client.watches.values()) endWatch(watch)
    client.watches.clear()
    rooms.leave(client, [...client.rooms]).catch((err: unknown) =>
      log.debug({ err }, 'a connection could not leave its rooms: it is removed when this process ends')
    )
    release(tenant, 'connections')
    recordBytes(client)
  }

  function recordBytes ({ identity, outlet }: Client): void {
    const { bytes } = outlet
    outlet.bytes = 0
    if (bytes > 0) usage()?.record(identity.tenant, 'bandwidth_bytes', bytes)
  }

  function endWatch (watch: Watch): void {
    if (watch.isClosed) return
    openWatches--
    reader.close(watch)
    watch.recording.end()
    release(watch.tenant, 'entities_watched')
  }

  function release (tenant: Owner, gauge: Gauge): void {
    usage()?.give(tenant, gauge)
  }

  /** Ends the connection if its token or key is no longer valid. */
  async function verify (client: Client): Promise<void> {
    const { identity } = client
    try {
      const claims = await identity.verify()
      if (client.identity === identity && claims !== identity.claims) client.identity = { ...identity, claims }
    } catch (error) {
      // Other errors, such as 429 and 503, say nothing about the credential.
      if (client.identity === identity && error instanceof TenantryError && [401, 403, 404].includes(error.statusCode)) {
        client.outlet.close(closeCodes.unauthenticated, 'The token or API key is no longer valid')
      }
    }
  }

  /** Checks the token or key, the tenant and the permissions again. Ends the connection, or mutes its watches and leaves its rooms. */
  async function recheck (client: Client): Promise<void> {
    const { identity, outlet } = client
    await verify(client)
    if (client.isClosed) return
    const tenant = await tenants.get(identity.tenant)
    if (tenant === null || tenant.status !== 'active') return outlet.close(closeCodes.refused, 'The tenant is suspended or deleted')
    for (const watch of client.watches.values()) {
      if (watch.permissions.length > 0) watch.isAllowed = await hasAll(client.identity, watch.permissions)
    }
    const lost: string[] = []
    for (const room of client.rooms) {
      const rule = ruleOf(room)
      if (rule === null || (rule.join.length > 0 && !await hasAll(client.identity, rule.join))) lost.push(room)
    }
    if (lost.length > 0) await rooms.leave(client, lost)
  }

  /** Throws `forbidden` for a room that no rule allows. */
  function requireRule (room: string) {
    const rule = ruleOf(room)
    if (rule === null) throw failure('forbidden', { message: 'There is no room with this name' })
    return rule
  }

  return {
    open,
    close,
    tableOf,
    get connections () {
      return clients.size
    },
    get watches () {
      return openWatches
    },

    /** Sends the `ack`; then earlier changes from `since`, or a `gap`; then new changes. */
    async watch (client: Client, request: WatchRequest, replayed: () => void = () => {}): Promise<void> {
      const { identity } = client
      const { table: name, ref, since } = request
      await identity.count()
      const watched = tableOf(name)
      if (watched === undefined) throw invalid('/table', 'is not a table that can be watched: `realtime.tables` of the document lists them')
      const permissions = listed[name]?.permissions ?? []
      await allows(identity, permissions)
      await requireTrigger(name)
      const conditions = await conditionsOf(engine, identity.tenant, watched, request)
      if (client.watches.size + client.opening >= maxWatchesOfClient) {
        throw failure('tooManyAttempts', { message: `A connection can have at most ${maxWatchesOfClient} watches`, ...retryIn(1) })
      }
      let recording: Recording
      client.opening++
      try {
        await usage()?.take(identity.tenant, 'entities_watched')
        recording = await recorder.record({ tenant: identity.tenant, table: name }).catch((error: unknown) => {
          release(identity.tenant, 'entities_watched')
          throw error
        })
      } finally {
        client.opening--
      }
      const id = String(++client.lastWatch)
      const watch: Watch = {
        id,
        client,
        tenant: identity.tenant,
        table: name,
        conditions,
        permissions,
        recording,
        isAllowed: true,
        isLive: false,
        isClosed: false
      }
      if (client.isClosed) {
        recording.end()
        return release(identity.tenant, 'entities_watched')
      }
      client.watches.set(id, watch)
      openWatches++
      let start = 0
      try {
        // The permissions may have changed while the watch waited, when no check found it yet.
        if (permissions.length > 0) watch.isAllowed = await hasAll(client.identity, permissions)
        await reader.open(watch, ({ position, floor }) => {
          client.outlet.send(stringifyJson({ type: 'ack', ref, watch: id, position }), 'ack', position)
          start = position
          if (since === undefined || since === position) watch.isLive = true
          else if (since > position || since < Math.max(floor, recording.start)) {
            client.outlet.send(stringifyJson({ type: 'gap', watch: id, position }), 'gap', position)
            watch.isLive = true
          } else start = since
        })
      } catch (error) {
        client.watches.delete(id)
        endWatch(watch)
        throw error
      }
      if (!watch.isLive) {
        reader.replay(watch, start).then(replayed, (err: unknown) => {
          log.warn({ err, tenant: identity.tenant }, 'earlier changes could not be read: the connection is closed, and its client can reconnect')
          comeBack(client)
        })
      } else replayed()
    },

    unwatch (client: Client, id: string): void {
      const watch = client.watches.get(id)
      if (watch === undefined) throw failure('notFound', { message: 'There is no such watch' })
      client.watches.delete(id)
      endWatch(watch)
    },

    async join (client: Client, room: string, state: unknown): Promise<void> {
      // Members who change their state send a message, as to the room.
      if (!client.rooms.has(room)) await client.identity.count()
      const { join } = requireRule(room)
      await allows(client.identity, join)
      if (state !== undefined && Buffer.byteLength(stringifyJson(state)) > maxStateBytes) {
        throw invalid('/state', `has more than ${maxStateBytes} bytes as JSON`)
      }
      if (!client.rooms.has(room) && client.rooms.size >= maxRoomsOfClient) {
        throw failure('tooManyAttempts', { message: `A connection can be in at most ${maxRoomsOfClient} rooms`, ...retryIn(1) })
      }
      await rooms.join(client, room, state ?? null)
      try {
        // As for a watch.
        await allows(client.identity, join)
      } catch (error) {
        await rooms.leave(client, [room])
        throw error
      }
    },

    leave: (client: Client, room: string): Promise<void> => rooms.leave(client, [room]),

    async message (client: Client, room: string, event: string | undefined, data: unknown): Promise<void> {
      if (!client.rooms.has(room)) throw failure('forbidden', { message: 'Only members of a room can send messages to it: join it first' })
      const { publish } = requireRule(room)
      await allows(client.identity, publish)
      if (client.rooms.has(room)) await rooms.publish(client.identity.tenant, { room, event, data }, client)
    },

    /** Sets a new token for the connection, with its permissions. Rejects with `tenantMismatch` for a token of another tenant. */
    async renew (client: Client, identity: Identity): Promise<void> {
      if (identity.tenant !== client.identity.tenant) {
        throw failure('tenantMismatch', { message: 'The token belongs to a different tenant than the connection' })
      }
      client.identity = identity
      await recheck(client)
    },

    /** Checks the connections of the tenant, or all connections for the platform. */
    async recheck (tenant: Owner): Promise<void> {
      for (const client of clients) {
        if (tenant !== platformRef && client.identity.tenant !== tenant) continue
        await recheck(client).catch((err: unknown) => log.debug({ err }, 'a connection could not be checked: retrying'))
      }
    },

    /** Records the bytes of open connections as bandwidth. */
    recordBytes (): void {
      for (const client of clients) recordBytes(client)
    },

    /** Ends connections with expired tokens. Other changes of rights arrive as events. A slow look-up delays no other connection. */
    async expire (): Promise<void> {
      await Promise.all(Array.from(clients, async (client) => {
        if (expiring.has(client)) return
        expiring.add(client)
        await verify(client)
        expiring.delete(client)
      }))
    },

    /** Ends the connections that watch the table. Clients reconnect and get a `gap`. */
    lose ({ tenant, table }: TenantTable): void {
      for (const client of clients) {
        if (client.identity.tenant !== tenant) continue
        if ([...client.watches.values()].some((watch) => watch.table === table)) comeBack(client)
      }
    },

    /** The same for all connections that watch a table. */
    loseAll (): void {
      for (const client of clients) if (client.watches.size > 0) comeBack(client)
    },

    /** From now on new connections are refused. */
    closeAll (closing: (outlet: Outlet) => void): void {
      isStopping = true
      for (const client of clients) closing(client.outlet)
    }
  }
}

function comeBack ({ outlet }: Client): void {
  outlet.close(closeCodes.stopping, stringifyJson({ retryAfterMs: 1000 }))
}
