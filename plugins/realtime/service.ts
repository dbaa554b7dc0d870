/** The core of realtime: connections, their watches and their rooms, independent of the transport. */
import { randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { failure, retryIn, TenantryError } from '../../lib/errors.js'
import { type Owner, platformRef } from '../../lib/identity/tenant-ref.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import { maxStateBytes } from '../../lib/realtime/messages.js'
import { createRoomRules } from '../../lib/realtime/rooms.js'
import type { Realtime as RealtimeSection } from '../../lib/schema/realtime.js'
import type { Usage } from '../usage/index.js'
import { invalid } from './conditions.js'
import { findTenant, isAllowed, requireAllowed, requireTenant } from './identity.js'
import type { TenantTable } from './recorded-store.js'
import type { Rooms } from './rooms.js'
import { type Client, closeCodes, type Identity, type Outlet } from './types.js'
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
  const expiring = new WeakSet<Client>()
  /** Their callers may have lost rights since their last check. */
  const unchecked = new Set<Client>()
  const ruleOf = createRoomRules(roomRules)
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
    unchecked.delete(client)
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

  /**
   * Checks the token or key, the tenant and the permissions again. Ends the connection, or mutes its watches and leaves its rooms. After a
   * failure, the next `expire` checks it again.
   */
  async function recheck (client: Client): Promise<void> {
    unchecked.delete(client)
    try {
      await checkRights(client)
    } catch (error) {
      if (!client.isClosed) unchecked.add(client)
      throw error
    }
  }

  async function recheckLogged (client: Client): Promise<void> {
    await recheck(client).catch((err: unknown) => log.debug({ err }, 'a connection could not be checked: retrying'))
  }

  async function checkRights (client: Client): Promise<void> {
    const { identity, outlet } = client
    await verify(client)
    if (client.isClosed) return
    const tenant = await findTenant(tenants, identity)
    if (tenant === null || tenant.status !== 'active') return outlet.close(closeCodes.refused, 'The tenant is suspended or deleted')
    await watches.recheck(client)
    const lost: string[] = []
    for (const room of client.rooms) {
      const rule = ruleOf(room)
      if (rule === null || (rule.join.length > 0 && !await isAllowed(app, client.identity, rule.join))) lost.push(room)
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
      await recheck(client)
    },

    /** Checks the connections of the tenant, or all connections for the platform. */
    async recheck (tenant: Owner): Promise<void> {
      const affected = [...clients].filter(({ identity }) => tenant === platformRef || identity.tenant === tenant)
      for (const client of affected) unchecked.add(client)
      // While a slow check delays the others, `expire` begins them.
      for (const client of affected) if (unchecked.has(client)) await recheckLogged(client)
    },

    /** Records the bytes of open connections as bandwidth. */
    recordBytes (): void {
      for (const client of clients) recordBytes(client)
    },

    /**
     * Ends connections with expired tokens, and repeats failed checks. Other changes of rights arrive as events. A slow look-up delays no
     * other connection.
     */
    async expire (): Promise<void> {
      const rechecks = Promise.all([...unchecked].map(recheckLogged))
      await Promise.all(Array.from(clients, async (client) => {
        if (expiring.has(client)) return
        expiring.add(client)
        await verify(client)
        expiring.delete(client)
      }))
      await rechecks
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
