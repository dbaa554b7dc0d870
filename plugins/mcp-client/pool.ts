/** Connections with servers: one for each tenant, or one for all tenants if the document says `shared`. */
import { LRUCache } from 'lru-cache'
import { untilAborted } from '../../lib/concurrency/with-timeout.js'
import { failure } from '../../lib/errors.js'
import type { TenantLife } from '../../lib/identity/tenant-ref.js'
import { stoppedBefore } from '../../lib/plugin/lifecycle.js'
import type { McpServer } from '../../lib/schema/agent.js'
import { type Connection, defaultTimeout } from './connection.js'
import { createEntries, type Entries } from './entries.js'
import { allTenants, type ConnectionOwner, type Entry } from './shares.js'
import type { ServerInfo } from './types.js'

const firstDelay = 250 // ms before a server starts again after a failure; doubles with each further failure
const maxDelay = 60_000 // ms
const calmAfter = 60_000 // ms; after a connection of this length, a failure counts as the first
const maxSessions = 256 // connections over HTTP
const maxFailures = 10_000 // servers whose failures are remembered

export interface PoolOptions {
  /** @param signal aborted when the pool closes */
  readonly open: (server: McpServer, signal: AbortSignal) => Promise<Connection>
  /** Child processes at the same time. */
  readonly maxProcesses: number
  /** Milliseconds for a call to wait for a connection while all are in use. */
  readonly maxWait: number
  readonly now: () => number
  readonly onFailure: (server: McpServer, error: unknown) => void
}

export type Pool = ReturnType<typeof createPool>

export function createPool ({ open, maxProcesses, maxWait, now, onFailure }: PoolOptions) {
  const kinds = { stdio: createEntries(maxProcesses), http: createEntries(maxSessions) }
  /** `until`: in milliseconds of the pool's clock. */
  const failures = new LRUCache<string, { readonly count: number, readonly until: number }>({ max: maxFailures })
  const closing = new AbortController()

  const entriesOf = ({ command }: McpServer) => command === undefined ? kinds.http : kinds.stdio

  function noteFailure (server: McpServer, key: string, error: unknown, began: number): void {
    if (closing.signal.aborted) return
    const count = now() - began > calmAfter ? 1 : (failures.get(key)?.count ?? 0) + 1
    failures.set(key, { count, until: now() + Math.min(maxDelay, firstDelay * 2 ** (count - 1)) })
    onFailure(server, error)
  }

  function refuseIfDown (key: string): void {
    const until = failures.get(key)?.until ?? 0
    if (now() < until) throw gone(until - now())
  }

  function begin (server: McpServer, key: string, owner: ConnectionOwner, entries: Entries): Entry {
    refuseIfDown(key)
    const began = now()
    const entry: Entry = { key, owner, opened: open(server, closing.signal), connection: null, active: 0 }
    entry.opened.then((connection) => {
      entry.connection = connection
      connection.ended.then((reason) => {
        // A connection that was ended on purpose is already removed.
        if (!entries.remove(entry)) return
        // One tenant's call causes it: the others do not wait for a new process.
        if (reason === 'tooLong') onFailure(server, new Error('a message of the MCP server is too long'))
        else noteFailure(server, key, new Error('the MCP server has stopped'), began)
      }).catch((error: unknown) => onFailure(server, error))
      entries.changed()
    }, (error: unknown) => {
      if (entries.remove(entry)) noteFailure(server, key, error, began)
    })
    return entry
  }

  async function take (server: McpServer, tenant: TenantLife, signal: AbortSignal): Promise<Entry> {
    const entries = entriesOf(server)
    const key = keyOf(server, tenant)
    const owner = server.shared === true ? allTenants : tenant
    if (closing.signal.aborted) throw stopped()
    if (entries.get(key) === undefined) refuseIfDown(key)
    const late = AbortSignal.timeout(maxWait)
    try {
      return await entries.take({ key, owner, begin: () => begin(server, key, owner, entries) }, AbortSignal.any([signal, late]))
    } catch (error) {
      if (error === late.reason) throw failure('toolsBusy', { headers: { 'retry-after': '1' } })
      throw error
    }
  }

  return {
    /** Rejects with `toolFailed` if the server is down, with `toolsBusy` if no connection becomes free, and with the signal's reason. */
    async use<Result> (
      server: McpServer,
      tenant: TenantLife,
      signal: AbortSignal,
      work: (connection: Connection) => Promise<Result>
    ): Promise<Result> {
      const entry = await take(server, tenant, signal)
      try {
        return await work(entry.connection ?? await start(server, entry, signal))
      } finally {
        entriesOf(server).release(entry)
      }
    },

    status (server: McpServer, tenant: TenantLife): Pick<ServerInfo, 'status' | 'tools'> {
      const key = keyOf(server, tenant)
      const entry = entriesOf(server).get(key)
      if (entry?.connection !== undefined && entry.connection !== null) return { status: 'up', tools: entry.connection.count }
      return { status: entry === undefined && (failures.get(key)?.until ?? 0) > now() ? 'down' : 'idle', tools: 0 }
    },

    /** The tenants that have or wait for a connection of their own. */
    tenants: (): ReadonlySet<TenantLife> => new Set(Object.values(kinds).flatMap((entries) => entries.tenants())),

    /** Ends the tenant's own connections, and rejects its waiting calls with `tenantUnknown`. */
    endOf (tenant: TenantLife): void {
      for (const entries of Object.values(kinds)) entries.endOf(tenant, failure('tenantUnknown'))
    },

    async close (): Promise<void> {
      closing.abort()
      const refusal = stopped()
      await Promise.all([kinds.stdio.close(refusal), kinds.http.close(refusal)])
    }
  }
}

/** The start continues for other callers if this caller leaves or times out. */
async function start ({ timeoutMs = defaultTimeout }: McpServer, { opened }: Entry, signal: AbortSignal): Promise<Connection> {
  const late = AbortSignal.timeout(timeoutMs)
  try {
    return await untilAborted(
      opened.catch((error: unknown) => {
        throw gone(firstDelay, error)
      }),
      AbortSignal.any([signal, late])
    )
  } catch (error) {
    if (error === late.reason) throw failure('toolTimeout', { cause: error })
    throw error
  }
}

const stopped = () => stoppedBefore('the MCP server')

function keyOf ({ name, shared = false }: McpServer, tenant: TenantLife): string {
  return shared ? `\n${name}` : `${tenant}\n${name}`
}

function gone (ms: number, cause?: unknown): Error {
  return failure('toolFailed', {
    message: 'The MCP server of the tool is not available; try again later',
    headers: { 'retry-after': String(Math.max(1, Math.ceil(ms / 1000))) },
    cause
  })
}
