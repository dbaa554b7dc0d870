/**
 * Checks open connections again: after changes that may end the rights of their callers, and for expired tokens. A tenant can have
 * thousands of connections, and cause many changes. So the checks take turns of the event loop, and changes during a check are one more
 * check, however many they are.
 */
import type { FastifyInstance } from 'fastify'
import { whenKnown } from '../../lib/cache/async-cache.js'
import { createYielder, type Yielder } from '../../lib/concurrency/event-loop-yielder.js'
import { KeyCounts } from '../../lib/concurrency/key-counts.js'
import { TenantryError } from '../../lib/errors.js'
import { type Owner, platformRef, tenantOfToken } from '../../lib/identity/tenant-ref.js'
import type { RoomRules } from '../../lib/realtime/rooms.js'
import { findTenant, isAllowed } from './identity.js'
import type { Rooms } from './rooms.js'
import { type Client, closeCodes, type Watch } from './types.js'

const maxSlow = 100 // checks of a tenant that wait for look-ups at once: they continue in one piece when a common look-up ends
const piece = 50 // verified tokens before other work may have a turn of the event loop
const neverChecked = -1 // in place of the number of a check that failed: before every change

export interface ChecksParts {
  readonly app: Pick<FastifyInstance, 'auth' | 'tenants' | 'log'>
  readonly rooms: Pick<Rooms, 'leave'>
  readonly ruleOf: RoomRules
}

/** An open connection. Changes and checks share one sequence of numbers. */
interface Entry {
  readonly client: Client
  readonly lane: Lane
  /** The last check that has begun. */
  begun: number
  /** The last check whose answers apply. */
  applied: number
  /** `expire` began a look-up that has not ended. */
  isSlow: boolean
}

/** The connections that one check walks over: those of a tenant. The lane of the platform has all connections. */
interface Lane {
  readonly entries: Set<Entry>
  /** Its turns: the platform's are the server's own. */
  readonly yielder: Yielder
  /** The last change. */
  changed: number
  running: Promise<void> | null
}

/** The watches and rooms of a connection that need the same permissions. */
interface Guarded {
  readonly watches: Watch[]
  readonly rooms: string[]
}

interface Needs {
  /** By the list of permissions. */
  readonly guarded: ReadonlyMap<readonly string[], Guarded>
  /** The rooms that no rule allows. */
  readonly unruled: readonly string[]
}

export function createChecks ({ app, rooms, ruleOf }: ChecksParts) {
  const { tenants, log } = app
  const entries = new Map<Client, Entry>()
  const lanes = new Map<Owner, Lane>()
  const platform = createLane(platformRef)
  /** The last check or change. */
  let number = 0
  /** The last change that concerns all connections, and the last one that concerns those of callers without a tenant. */
  let [changedForAll, changedWithoutTenant] = [0, 0]
  let isExpiring = false

  function concernsTenant ({ begun, lane }: Entry): boolean {
    return begun < lane.changed
  }

  function concernsPlatform ({ begun, client }: Entry): boolean {
    return begun < changedForAll || (begun < changedWithoutTenant && tenantOfToken(client.identity.claims) === platformRef)
  }

  const isDue = (entry: Entry): boolean => concernsTenant(entry) || concernsPlatform(entry)

  /** Ends the connection if its token or key is no longer valid. Never throws or rejects. */
  function verify (client: Client): void | Promise<void> {
    const { identity } = client
    const accept = (claims: typeof identity.claims): void => {
      if (client.identity === identity && claims !== identity.claims) client.identity = { ...identity, claims }
    }
    const refuse = (error: unknown): void => {
      // Other errors, such as 429 and 503, say nothing about the credential.
      if (client.identity === identity && error instanceof TenantryError && [401, 403, 404].includes(error.statusCode)) {
        client.outlet.close(closeCodes.unauthenticated, 'The token or API key is no longer valid')
      }
    }
    try {
      const claims = identity.verify()
      return claims instanceof Promise ? claims.then(accept).catch(refuse) : accept(claims)
    } catch (error) {
      return refuse(error)
    }
  }

  /**
   * Checks the token or key, the tenant and the permissions. Ends the connection, or mutes its watches and leaves its rooms. Mostly
   * synchronous, so that turns of the event loop are exact. Throws, or rejects, if a look-up fails.
   */
  function checkRights (entry: Entry, check: number): void | Promise<void> {
    const { client } = entry
    return whenKnown(verify(client), (): void | Promise<void> => {
      if (client.isClosed) return
      return whenKnown(findTenant(tenants, client.identity), (tenant): void | Promise<void> => {
        if (tenant !== null && tenant.status === 'active') return checkPermissions(entry, check)
        client.outlet.close(closeCodes.refused, 'The tenant is suspended or deleted')
      })
    })
  }

  function checkPermissions (entry: Entry, check: number): void | Promise<void> {
    const { client } = entry
    const { guarded, unruled } = needsOf(client)
    const slow: Promise<unknown>[] = unruled.length > 0 ? [rooms.leave(client, unruled)] : []
    for (const [permissions, { watches, rooms: names }] of guarded) {
      const asked = whenKnown(isAllowed(app, client.identity, permissions), (allowed): void | Promise<void> => {
        // A later check has newer answers.
        if (check < entry.applied) return
        entry.applied = check
        for (const watch of watches) watch.isAllowed = allowed
        if (!allowed && names.length > 0) return rooms.leave(client, names)
      })
      if (asked instanceof Promise) slow.push(asked)
    }
    if (slow.length > 0) return Promise.all(slow).then(() => {})
  }

  function needsOf ({ watches, rooms }: Client): Needs {
    const guarded = new Map<readonly string[], Guarded>()
    const unruled: string[] = []
    const by = (permissions: readonly string[]): Guarded => {
      let known = guarded.get(permissions)
      if (known === undefined) guarded.set(permissions, known = { watches: [], rooms: [] })
      return known
    }
    for (const watch of watches.values()) if (watch.permissions.length > 0) by(watch.permissions).watches.push(watch)
    for (const room of rooms) {
      const rule = ruleOf(room)
      if (rule === null) unruled.push(room)
      else if (rule.join.length > 0) by(rule.join).rooms.push(room)
    }
    return { guarded, unruled }
  }

  /** Never throws. After a rejection, the next `expire` checks the connection again. */
  function check (entry: Entry): void | Promise<void> {
    const own = ++number
    entry.begun = own
    const failed = async (error: unknown): Promise<never> => {
      if (entry.begun === own) entry.begun = neverChecked
      throw error
    }
    try {
      const checking = checkRights(entry, own)
      if (checking instanceof Promise) return checking.catch(failed)
    } catch (error) {
      return failed(error)
    }
  }

  /** Never rejects. */
  function checkLogged (entry: Entry): void | Promise<void> {
    const checking = check(entry)
    if (!(checking instanceof Promise)) return
    return checking.catch((err: unknown) => log.debug({ err }, 'a connection could not be checked: retrying'))
  }

  /** Without waiting for a turn of the tenant, but as part of its work. */
  function checkDue (entry: Entry): void | Promise<void> {
    const { yielder } = entry.lane
    yielder.begin()
    const checking = checkLogged(entry)
    yielder.done()
    return checking
  }

  /** Checks the connections of the lane that a change concerns, until none came meanwhile. */
  async function walk (lane: Lane): Promise<void> {
    // Other listeners of the change clear their caches first.
    await Promise.resolve()
    try {
      let walked: number
      do {
        walked = lane.changed
        await walkOnce(lane)
      } while (lane.changed > walked)
    } finally {
      lane.running = null
    }
  }

  async function walkOnce (lane: Lane): Promise<void> {
    const { entries, yielder } = lane
    const concerns = lane === platform ? concernsPlatform : concernsTenant
    const slow: Promise<void>[] = []
    for (const entry of entries) {
      if (!concerns(entry)) continue
      if (yielder.shouldYield()) await yielder.yield()
      // Meanwhile `expire` may have checked it, or it was closed.
      if (!entries.has(entry) || !concerns(entry)) continue
      const checking = checkLogged(entry)
      if (checking instanceof Promise && slow.push(checking) === maxSlow) {
        yielder.done()
        await Promise.all(slow.splice(0))
      }
    }
    yielder.done()
    await Promise.all(slow)
  }

  async function expireOnce (): Promise<void> {
    const yielder = createYielder()
    const slow = new KeyCounts<Owner>()
    let count = 0
    for (const entry of platform.entries) {
      if ((++count % piece === 0 || isDue(entry)) && yielder.shouldYield()) await yielder.yield()
      const { tenant } = entry.client.identity
      if (entry.isSlow || entry.client.isClosed || slow.of(tenant) >= maxSlow) continue
      const looking = isDue(entry) ? checkDue(entry) : verify(entry.client)
      if (!(looking instanceof Promise)) continue
      slow.add(tenant, 1)
      entry.isSlow = true
      const settled = (): void => {
        entry.isSlow = false
      }
      looking.then(settled, settled)
    }
    yielder.done()
  }

  function recheck (lane: Lane): Promise<void> {
    lane.changed = number
    lane.running ??= walk(lane)
    return lane.running
  }

  return {
    add (client: Client): void {
      const { tenant } = client.identity
      let lane = lanes.get(tenant)
      if (lane === undefined) lanes.set(tenant, lane = createLane(tenant))
      const entry = { client, lane, begun: number, applied: 0, isSlow: false }
      entries.set(client, entry)
      lane.entries.add(entry)
      platform.entries.add(entry)
    },

    remove (client: Client): void {
      const entry = entries.get(client)
      if (entry === undefined) return
      const { lane } = entry
      entries.delete(client)
      platform.entries.delete(entry)
      lane.entries.delete(entry)
      if (lane.entries.size === 0) lanes.delete(client.identity.tenant)
    },

    /** Checks one connection now. Rejects if a look-up fails. */
    async check (client: Client): Promise<void> {
      const entry = entries.get(client)
      if (entry !== undefined) await check(entry)
    },

    /** Checks the connections of a tenant; for the platform, those of callers without a tenant. */
    async recheck (tenant: Owner): Promise<void> {
      const lane = tenant === platformRef ? platform : lanes.get(tenant)
      if (lane === undefined) return
      number++
      if (lane === platform) changedWithoutTenant = number
      await recheck(lane)
    },

    async recheckAll (): Promise<void> {
      changedForAll = ++number
      await recheck(platform)
    },

    /**
     * Ends connections with expired tokens, and checks those that are due: their check has failed, or waits for a slow look-up of another
     * connection or for its tenant's turn. Does not wait for slow look-ups. In turns of the server itself: a tenant that pauses cannot
     * delay the end of its tokens.
     */
    async expire (): Promise<void> {
      if (isExpiring) return
      isExpiring = true
      try {
        await expireOnce()
      } finally {
        isExpiring = false
      }
    }
  }
}

function createLane (tenant: Owner): Lane {
  return { entries: new Set(), yielder: createYielder(tenant), changed: 0, running: null }
}
