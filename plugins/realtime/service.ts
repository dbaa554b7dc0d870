/** The core of realtime: connections, their watches and their rooms, independent of the transport. */
import { randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { failure, retryIn } from '../../lib/errors.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import { maxStateBytes } from '../../lib/realtime/messages.js'
import { createRoomRules } from '../../lib/realtime/rooms.js'
import type { Realtime as RealtimeSection } from '../../lib/schema/realtime.js'
import type { Usage } from '../usage/index.js'
import { createChecks } from './checks.js'
import { invalid } from './conditions.js'
import { requireAllowed, requireTenant } from './identity.js'
import type { TenantTable } from './recorded-store.js'
import type { Rooms } from './rooms.js'
import type { Client, Identity, Outlet } from './types.js'
import { askToReconnect, type Watches } from './watches.js'

export interface CoreParts {
  readonly app: Pick<FastifyInstance, 'auth' | 'tenants' | 'log'>
  readonly usage: () => Usage | null
  readonly watches: Watches
  readonly rooms: Rooms
  /** The section `realtime.rooms`. */
  readonly roomRules: RealtimeSection['rooms']
}

export type Core = ReturnType<typeof createCore>

const maxRoomsOfClient = 100

export function createCore ({ app, usage, watches, rooms, roomRules }: CoreParts) {
  const { tenants, log } = app
  const clients = new Set<Client>()
  const ruleOf = createRoomRules(roomRules)
  const checks = createChecks({ app, rooms, ruleOf })
  let isStopping = false

  async function open (outlet: Outlet, identity: Identity): Promise<Client> {
    await usage()?.take(identity.tenant, 'connections')
    if (isStopping) {
      release(identity.tenant)
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
    checks.add(client)
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
    checks.remove(client)
    const { tenant } = client.identity
    watches.closeAll(client)
    rooms.leave(client, [...client.rooms]).catch((err: unknown) =>
      log.debug({ err }, 'a connection could not leave its rooms: it is removed with a later heartbeat')
    )
    release(tenant)
    recordBytes(client)
  }

  function release (tenant: Owner): void {
    usage()?.give(tenant, 'connections')
  }

  function recordBytes ({ identity, outlet }: Client): void {
    const { bytes } = outlet
    outlet.bytes = 0
    if (bytes > 0) usage()?.record(identity.tenant, 'bandwidth_bytes', bytes)
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
    recheck: checks.recheck,
    recheckAll: checks.recheckAll,
    expire: checks.expire,
    watch: watches.open,
    unwatch: watches.close,
    get connections () {
      return clients.size
    },

    async join (client: Client, room: string, state: unknown): Promise<void> {
      // Members who change their state send a message, as to the room.
      if (!client.rooms.has(room)) await client.identity.count()
      const { join } = requireRule(room)
      await requireAllowed(app, client.identity, join)
      if (state !== undefined && Buffer.byteLength(stringifyJson(state)) > maxStateBytes) {
        throw invalid('/state', `has more than ${maxStateBytes} bytes as JSON`)
      }
      if (!client.rooms.has(room) && client.rooms.size >= maxRoomsOfClient) {
        throw failure('tooManyAttempts', { message: `A connection can be in at most ${maxRoomsOfClient} rooms`, ...retryIn(1) })
      }
      await rooms.join(client, room, state ?? null)
      try {
        // The permissions may have changed while the join waited.
        await requireAllowed(app, client.identity, join)
      } catch (error) {
        await rooms.leave(client, [room])
        throw error
      }
    },

    leave: (client: Client, room: string): Promise<void> => rooms.leave(client, [room]),

    async message (client: Client, room: string, event: string | undefined, data: unknown): Promise<void> {
      if (!client.rooms.has(room)) throw failure('forbidden', { message: 'Only members of a room can send messages to it: join it first' })
      const { publish } = requireRule(room)
      await requireAllowed(app, client.identity, publish)
      if (client.rooms.has(room)) await rooms.publish(client.identity.tenant, { room, event, data }, client)
    },

    /** Sets a new token for the connection, with its permissions. Rejects with `tenantMismatch` for a token of another tenant. */
    async renew (client: Client, identity: Identity): Promise<void> {
      const { tenant, createdAt } = client.identity
      if (identity.tenant !== tenant || identity.createdAt.getTime() !== createdAt.getTime()) {
        throw failure('tenantMismatch', { message: 'The token belongs to a different tenant than the connection' })
      }
      client.identity = identity
      await checks.check(client)
    },

    /** Records the bytes of open connections as bandwidth. */
    recordBytes (): void {
      for (const client of clients) recordBytes(client)
    },

    /** Ends the connections that watch the table. Clients reconnect and get a `gap`. */
    lose ({ tenant, table }: TenantTable): void {
      for (const client of clients) {
        if (client.identity.tenant !== tenant) continue
        if ([...client.watches.values()].some((watch) => watch.table === table)) askToReconnect(client.outlet)
      }
    },

    /** The same for all connections that watch a table. */
    loseAll (): void {
      for (const client of clients) if (client.watches.size > 0) askToReconnect(client.outlet)
    },

    /** From now on new connections are refused. */
    closeAll (closing: (outlet: Outlet) => void): void {
      isStopping = true
      for (const client of clients) closing(client.outlet)
    }
  }
}
